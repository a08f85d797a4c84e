<!DOCTYPE qgis PUBLIC 'http://mrcc.com/qgis.dtd' 'SYSTEM'>
<qgis version="3.22" styleCategories="AllStyleCategories" labelsEnabled="0">
  <renderer-v2 type="categorizedSymbol" attr="class" symbollevels="0" enableorderby="0">
    <categories>
      <category value="asphalt" label="asphalt" symbol="0" render="true" />
      <category value="bare soil" label="bare soil" symbol="1" render="true" />
      <category value="gravel" label="gravel" symbol="2" render="true" />
      <category value="sheet metal" label="sheet metal" symbol="3" render="true" />
      <category value="tile" label="tile" symbol="4" render="true" />
      <category value="vegetation" label="vegetation" symbol="5" render="true" />
    </categories>
    <symbols>
      <symbol type="fill" name="0" alpha="1" clip_to_extent="1">
        <layer class="SimpleFill" enabled="1" pass="0" locked="0">
          <prop k="outline_style" v="solid" />
          <prop k="outline_width_unit" v="MM" />
          <prop k="color" v="85,86,91,150" />
          <prop k="outline_color" v="85,86,91,255" />
          <prop k="outline_width" v="0.4" />
          <prop k="style" v="solid" />
        </layer>
      </symbol>
      <symbol type="fill" name="1" alpha="1" clip_to_extent="1">
        <layer class="SimpleFill" enabled="1" pass="0" locked="0">
          <prop k="outline_style" v="solid" />
          <prop k="outline_width_unit" v="MM" />
          <prop k="color" v="169,129,79,150" />
          <prop k="outline_color" v="169,129,79,255" />
          <prop k="outline_width" v="0.4" />
          <prop k="style" v="solid" />
        </layer>
      </symbol>
      <symbol type="fill" name="2" alpha="1" clip_to_extent="1">
        <layer class="SimpleFill" enabled="1" pass="0" locked="0">
          <prop k="outline_style" v="solid" />
          <prop k="outline_width_unit" v="MM" />
          <prop k="color" v="217,207,180,150" />
          <prop k="outline_color" v="217,207,180,255" />
          <prop k="outline_width" v="0.4" />
          <prop k="style" v="solid" />
        </layer>
      </symbol>
      <symbol type="fill" name="3" alpha="1" clip_to_extent="1">
        <layer class="SimpleFill" enabled="1" pass="0" locked="0">
          <prop k="outline_style" v="solid" />
          <prop k="outline_width_unit" v="MM" />
          <prop k="color" v="74,127,181,150" />
          <prop k="outline_color" v="74,127,181,255" />
          <prop k="outline_width" v="0.4" />
          <prop k="style" v="solid" />
        </layer>
      </symbol>
      <symbol type="fill" name="4" alpha="1" clip_to_extent="1">
        <layer class="SimpleFill" enabled="1" pass="0" locked="0">
          <prop k="outline_style" v="solid" />
          <prop k="outline_width_unit" v="MM" />
          <prop k="color" v="200,80,45,150" />
          <prop k="outline_color" v="200,80,45,255" />
          <prop k="outline_width" v="0.4" />
          <prop k="style" v="solid" />
        </layer>
      </symbol>
      <symbol type="fill" name="5" alpha="1" clip_to_extent="1">
        <layer class="SimpleFill" enabled="1" pass="0" locked="0">
          <prop k="outline_style" v="solid" />
          <prop k="outline_width_unit" v="MM" />
          <prop k="color" v="47,143,58,150" />
          <prop k="outline_color" v="47,143,58,255" />
          <prop k="outline_width" v="0.4" />
          <prop k="style" v="solid" />
        </layer>
      </symbol>
    </symbols>
  </renderer-v2>
</qgis>
