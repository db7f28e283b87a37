// What charts take from others, as one module: loaded only where there is a chart.
export { max } from "d3-array";
export { scaleLinear } from "d3-scale";
export { area, curveLinear, curveStepAfter, line, stack } from "d3-shape";
