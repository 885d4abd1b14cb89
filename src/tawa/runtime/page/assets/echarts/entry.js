import * as core from "echarts/core";
import { BarChart, CustomChart } from "echarts/charts";
import { DataZoomComponent, GridComponent, LegendComponent, TooltipComponent } from "echarts/components";
import { CanvasRenderer } from "echarts/renderers";

core.use([BarChart, CustomChart, DataZoomComponent, GridComponent, LegendComponent, TooltipComponent, CanvasRenderer]);
export const init = core.init;
export const version = core.version;
