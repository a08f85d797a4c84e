<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>
<qgis version="3.22" styleCategories="AllStyleCategories">
  <pipe>
    <rasterrenderer type="singlebandpseudocolor" band="1" opacity="1" alphaBand="-1" classificationMin="0" classificationMax="1">
      <rastershader>
        <colorrampshader colorRampType="INTERPOLATED" classificationMode="1" clip="0" minimumValue="0" maximumValue="1" labelPrecision="4">
          <colorramp type="gradient" name="[source]">
            <Option type="Map">
              <Option type="QString" name="color1" value="0,0,0,255" />
              <Option type="QString" name="color2" value="255,255,255,255" />
              <Option type="QString" name="discrete" value="0" />
              <Option type="QString" name="rampType" value="gradient" />
              <Option type="QString" name="stops" value="0.25;64,64,64,255:0.5;128,128,128,255:0.75;192,192,192,255" />
            </Option>
            <prop k="color1" v="0,0,0,255" />
            <prop k="color2" v="255,255,255,255" />
            <prop k="discrete" v="0" />
            <prop k="rampType" v="gradient" />
            <prop k="stops" v="0.25;64,64,64,255:0.5;128,128,128,255:0.75;192,192,192,255" />
          </colorramp>
          <item value="0" color="#000000" alpha="255" label="0" />
          <item value="0.25" color="#404040" alpha="255" label="0.25" />
          <item value="0.5" color="#808080" alpha="255" label="0.5" />
          <item value="0.75" color="#c0c0c0" alpha="255" label="0.75" />
          <item value="1" color="#ffffff" alpha="255" label="1" />
          <rampLegendSettings useContinuousLegend="1" orientation="2" direction="0" prefix="" suffix="" minimumLabel="" maximumLabel="" />
        </colorrampshader>
      </rastershader>
    </rasterrenderer>
  </pipe>
</qgis>
