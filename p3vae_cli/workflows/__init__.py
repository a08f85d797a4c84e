"""What the commands do, without a command line."""
