<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>
<qgis version="3.22" styleCategories="AllStyleCategories">
  <pipe>
    <rasterrenderer type="singlebandpseudocolor" band="1" opacity="1" alphaBand="-1" classificationMin="0" classificationMax="1">
      <rastershader>
        <colorrampshader colorRampType="INTERPOLATED" classificationMode="1" clip="0" minimumValue="0" maximumValue="1" labelPrecision="4">
          <colorramp type="gradient" name="[source]">
            <Option type="Map">
              <Option type="QString" name="color1" value="0,34,78,255" />
              <Option type="QString" name="color2" value="254,232,56,255" />
              <Option type="QString" name="discrete" value="0" />
              <Option type="QString" name="rampType" value="gradient" />
              <Option type="QString" name="stops" value="0.125;31,58,109,255:0.25;67,78,108,255:0.375;95,99,110,255:0.5;125,124,120,255:0.625;155,148,118,255:0.75;188,174,108,255:0.875;223,203,87,255" />
            </Option>
            <prop k="color1" v="0,34,78,255" />
            <prop k="color2" v="254,232,56,255" />
            <prop k="discrete" v="0" />
            <prop k="rampType" v="gradient" />
            <prop k="stops" v="0.125;31,58,109,255:0.25;67,78,108,255:0.375;95,99,110,255:0.5;125,124,120,255:0.625;155,148,118,255:0.75;188,174,108,255:0.875;223,203,87,255" />
          </colorramp>
          <item value="0" color="#00224e" alpha="255" label="0" />
          <item value="0.125" color="#1f3a6d" alpha="255" label="0.125" />
          <item value="0.25" color="#434e6c" alpha="255" label="0.25" />
          <item value="0.375" color="#5f636e" alpha="255" label="0.375" />
          <item value="0.5" color="#7d7c78" alpha="255" label="0.5" />
          <item value="0.625" color="#9b9476" alpha="255" label="0.625" />
          <item value="0.75" color="#bcae6c" alpha="255" label="0.75" />
          <item value="0.875" color="#dfcb57" alpha="255" label="0.875" />
          <item value="1" color="#fee838" alpha="255" label="1" />
          <rampLegendSettings useContinuousLegend="1" orientation="2" direction="0" prefix="" suffix="" minimumLabel="" maximumLabel="" />
        </colorrampshader>
      </rastershader>
    </rasterrenderer>
  </pipe>
</qgis>
