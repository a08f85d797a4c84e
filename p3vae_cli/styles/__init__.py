"""What QGIS reads beside a file: colours, legends, a project."""
