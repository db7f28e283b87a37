/** The bundle of others that charts are drawn with (static/vendor/charts.js); its name changes with its content. */
export const { area, curveLinear, curveStepAfter, line, max, scaleLinear, stack } =
  await import(document.body.dataset.charts);
