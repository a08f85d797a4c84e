<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>
<qgis version="3.22" styleCategories="AllStyleCategories">
  <pipe>
    <rasterrenderer type="singlebandpseudocolor" band="1" opacity="1" alphaBand="-1" classificationMin="0" classificationMax="2000">
      <rastershader>
        <colorrampshader colorRampType="INTERPOLATED" classificationMode="1" clip="0" minimumValue="0" maximumValue="2000" labelPrecision="4">
          <colorramp type="gradient" name="[source]">
            <Option type="Map">
              <Option type="QString" name="color1" value="0,0,4,255" />
              <Option type="QString" name="color2" value="252,255,164,255" />
              <Option type="QString" name="discrete" value="0" />
              <Option type="QString" name="rampType" value="gradient" />
              <Option type="QString" name="stops" value="0.125;33,12,74,255:0.25;87,16,110,255:0.375;138,34,106,255:0.5;188,55,84,255:0.625;228,90,49,255:0.75;249,142,9,255:0.875;249,203,53,255" />
            </Option>
            <prop k="color1" v="0,0,4,255" />
            <prop k="color2" v="252,255,164,255" />
            <prop k="discrete" v="0" />
            <prop k="rampType" v="gradient" />
            <prop k="stops" v="0.125;33,12,74,255:0.25;87,16,110,255:0.375;138,34,106,255:0.5;188,55,84,255:0.625;228,90,49,255:0.75;249,142,9,255:0.875;249,203,53,255" />
          </colorramp>
          <item value="0" color="#000004" alpha="255" label="0 ppm·m" />
          <item value="250" color="#210c4a" alpha="255" label="250 ppm·m" />
          <item value="500" color="#57106e" alpha="255" label="500 ppm·m" />
          <item value="750" color="#8a226a" alpha="255" label="750 ppm·m" />
          <item value="1000" color="#bc3754" alpha="255" label="1000 ppm·m" />
          <item value="1250" color="#e45a31" alpha="255" label="1250 ppm·m" />
          <item value="1500" color="#f98e09" alpha="255" label="1500 ppm·m" />
          <item value="1750" color="#f9cb35" alpha="255" label="1750 ppm·m" />
          <item value="2000" color="#fcffa4" alpha="255" label="2000 ppm·m" />
          <rampLegendSettings useContinuousLegend="1" orientation="2" direction="0" prefix="" suffix=" ppm·m" minimumLabel="" maximumLabel="" />
        </colorrampshader>
      </rastershader>
    </rasterrenderer>
  </pipe>
</qgis>
