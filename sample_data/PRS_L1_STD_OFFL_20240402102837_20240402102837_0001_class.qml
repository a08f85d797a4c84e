<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>
<qgis version="3.22" styleCategories="AllStyleCategories">
  <pipe>
    <rasterrenderer type="paletted" band="1" opacity="1" alphaBand="-1">
      <colorPalette>
        <paletteEntry value="1" color="#55565b" alpha="255" label="asphalt" />
        <paletteEntry value="2" color="#a9814f" alpha="255" label="bare soil" />
        <paletteEntry value="3" color="#d9cfb4" alpha="255" label="gravel" />
        <paletteEntry value="4" color="#4a7fb5" alpha="255" label="sheet metal" />
        <paletteEntry value="5" color="#c8502d" alpha="255" label="tile" />
        <paletteEntry value="6" color="#2f8f3a" alpha="255" label="vegetation" />
      </colorPalette>
    </rasterrenderer>
  </pipe>
</qgis>
