"""Algorithms: each turns its parameters into a call of the program and loads what it writes."""

from __future__ import annotations

import json
from pathlib import Path

from qgis.core import (
    QgsProcessing,
    QgsProcessingAlgorithm,
    QgsProcessingContext,
    QgsProcessingParameterBoolean,
    QgsProcessingParameterEnum,
    QgsProcessingParameterFile,
    QgsProcessingParameterFileDestination,
    QgsProcessingParameterFolderDestination,
    QgsProcessingParameterNumber,
    QgsProcessingParameterString,
    QgsProcessingParameterVectorLayer,
)

from .program import call

MODELS = ("p3vae", "random-forest", "lda", "cnn")


def file_parameter(name, text, *, extension="", optional=False):
    return QgsProcessingParameterFile(name, text, extension=extension, optional=optional)


def model_parameter():
    return file_parameter("MODEL", "Model (empty: the shipped one)", extension="p3vae", optional=True)


def number_parameter(name, text):
    return QgsProcessingParameterNumber(
        name, text, QgsProcessingParameterNumber.Double, optional=True, minValue=0.0
    )


class P3vaeAlgorithm(QgsProcessingAlgorithm):
    """What all of them share."""

    COMMAND = ""
    TITLE = ""
    HELP = ""

    def name(self):
        return self.COMMAND.replace("-", "_")

    def displayName(self):  # noqa: N802 - the names QGIS looks for
        return self.TITLE

    def shortHelpString(self):  # noqa: N802
        return self.HELP

    def createInstance(self):  # noqa: N802
        return type(self)()

    def option(self, parameters, name, option, context):
        """["--option", "value"], or nothing where no value is given."""
        value = parameters.get(name)
        if value is None or value == "":
            return []
        return [option, self.parameterAsString(parameters, name, context)]


class MappingAlgorithm(P3vaeAlgorithm):
    """A command that maps scenes into a folder."""

    def add_own(self):
        """Parameters beside scene and folder."""

    def own_arguments(self, parameters, context):
        """Their words on the command line."""
        return []

    def initAlgorithm(self, config=None):  # noqa: N802
        self.addParameter(file_parameter("SCENE", "Scene (GeoTIFF, ENVI, PRISMA, EnMAP, EMIT)"))
        self.add_own()
        self.addParameter(QgsProcessingParameterFolderDestination("OUTPUT", "Folder for the maps"))

    def processAlgorithm(self, parameters, context, feedback):  # noqa: N802
        scene = self.parameterAsFile(parameters, "SCENE", context)
        folder = self.parameterAsString(parameters, "OUTPUT", context)
        words = [self.COMMAND, scene, "-o", folder, "--overwrite", "--json"]
        lines = call([*words, *self.own_arguments(parameters, context)], feedback)
        record = json.loads(lines[-1])
        for name, path in record["products"].items():
            details = QgsProcessingContext.LayerDetails(Path(path).stem, context.project(), name)
            context.addLayerToLoadOnCompletion(path, details)
        return {"OUTPUT": folder, "PRODUCTS": list(record["products"].values())}


class Classify(MappingAlgorithm):
    COMMAND, TITLE = "classify", "Classify land cover"
    HELP = "Land cover, confidence, and the direct sunlight of every pixel with its uncertainty."

    def add_own(self):
        self.addParameter(model_parameter())
        self.addParameter(
            QgsProcessingParameterBoolean("UNKNOWN", "Mark pixels unlike anything learned", False)
        )

    def own_arguments(self, parameters, context):
        unknown = ["--unknown"] if self.parameterAsBool(parameters, "UNKNOWN", context) else []
        return [*self.option(parameters, "MODEL", "-m", context), *unknown]


class Irradiance(MappingAlgorithm):
    COMMAND, TITLE = "irradiance-map", "Map direct sunlight"
    HELP = "How much direct sun each pixel gets, and the scene as flat, sunlit ground would show it."

    def add_own(self):
        self.addParameter(model_parameter())
        self.addParameter(QgsProcessingParameterBoolean("RELIGHT", "Also write the relit scene", False))

    def own_arguments(self, parameters, context):
        relight = ["--relight"] if self.parameterAsBool(parameters, "RELIGHT", context) else []
        return [*self.option(parameters, "MODEL", "-m", context), *relight]


class Methane(MappingAlgorithm):
    COMMAND, TITLE = "invert-methane", "Map methane"
    HELP = "Methane enhancement of a radiance scene, its plumes, and with a wind their emission rates."

    def add_own(self):
        self.addParameter(number_parameter("WIND", "Wind at 10 m [m/s]"))

    def own_arguments(self, parameters, context):
        return self.option(parameters, "WIND", "--wind", context)


class Train(P3vaeAlgorithm):
    COMMAND, TITLE = "train", "Train a land-cover model"
    HELP = "A model from a scene and label polygons."

    def initAlgorithm(self, config=None):  # noqa: N802
        self.addParameter(file_parameter("SCENE", "Scene"))
        kinds = [QgsProcessing.TypeVectorPolygon, QgsProcessing.TypeVectorPoint]
        self.addParameter(QgsProcessingParameterVectorLayer("LABELS", "Labels", kinds))
        self.addParameter(QgsProcessingParameterString("FIELD", "Field that names the class", "class"))
        self.addParameter(QgsProcessingParameterEnum("KIND", "Model", MODELS, defaultValue=0))
        self.addParameter(QgsProcessingParameterFileDestination("OUTPUT", "Model file", "*.p3vae"))

    def processAlgorithm(self, parameters, context, feedback):  # noqa: N802
        scene = self.parameterAsFile(parameters, "SCENE", context)
        labels = self.parameterAsVectorLayer(parameters, "LABELS", context).source().split("|")[0]
        field = self.parameterAsString(parameters, "FIELD", context)
        kind = MODELS[self.parameterAsEnum(parameters, "KIND", context)]
        model = self.parameterAsFileOutput(parameters, "OUTPUT", context)
        words = ["train", scene, "--labels", labels, "--class-field", field, "--model", kind]
        for line in call([*words, "-o", model, "--overwrite"], feedback):
            feedback.pushInfo(line)
        return {"OUTPUT": model}


class Report(P3vaeAlgorithm):
    COMMAND, TITLE = "report", "Report as HTML"
    HELP = "One HTML page about the products of a folder."

    def initAlgorithm(self, config=None):  # noqa: N802
        folder = QgsProcessingParameterFile("FOLDER", "Folder of the maps", QgsProcessingParameterFile.Folder)
        self.addParameter(folder)
        self.addParameter(file_parameter("MODEL", "Model", extension="p3vae", optional=True))
        self.addParameter(QgsProcessingParameterFileDestination("OUTPUT", "Page", "HTML (*.html)"))

    def processAlgorithm(self, parameters, context, feedback):  # noqa: N802
        folder = self.parameterAsString(parameters, "FOLDER", context)
        page = self.parameterAsFileOutput(parameters, "OUTPUT", context)
        words = ["report", folder, "-o", page, "--overwrite"]
        call([*words, *self.option(parameters, "MODEL", "-m", context)], feedback)
        return {"OUTPUT": page}


ALGORITHMS = (Classify, Train, Irradiance, Methane, Report)
