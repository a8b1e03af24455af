// Draws a chart of Vega-Lite with the colours of the page.
"use strict";

const DARK = window.matchMedia("(prefers-color-scheme: dark)");
// More marks than this are drawn on a canvas, because elements of SVG become slow.
const MOST_ELEMENTS = 3000;
// The rows of the charts that have one for each method.
const ROWS_OF = { break_even: "cells", differences: "pairs" };

function styleOf(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function themed() {
  const [text, faint, line] = ["--text", "--muted", "--line"].map(styleOf);
  return {
    background: "transparent",
    font: "system-ui, sans-serif",
    view: { stroke: null },
    axis: {
      labelColor: text, titleColor: text, domainColor: faint, tickColor: faint, gridColor: line,
      labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal", labelLimit: 140,
    },
    legend: {
      labelColor: text, labelFontSize: 12, orient: "bottom", direction: "horizontal", title: null,
      symbolSize: 90, symbolOpacity: 1, symbolStrokeWidth: 2, columns: window.innerWidth < 700 ? 3 : 6,
    },
    line: { color: text }, point: { color: text }, rule: { color: text },
  };
}

function colourOf(method) {
  return chosen.suite.colours[method] ?? styleOf("--text");
}

// Scales that the specification leaves open get this domain, and the colours of the methods.
function withDomain(part, domain) {
  if (Array.isArray(part)) return part.map((item) => withDomain(item, domain));
  if (part === null || typeof part !== "object") return part;
  const items = Object.entries(part).map(([name, item]) => [name, withDomain(item, domain)]);
  const copy = Object.fromEntries(items);
  if (Array.isArray(copy.domain) && !copy.domain.length) copy.domain = domain;
  if (Array.isArray(copy.range) && !copy.range.length) copy.range = domain.map(colourOf);
  return copy;
}

// `datasets` are rows by the names that the specification uses. `description` is read to those who do not see
// the chart.
async function draw(place, name, datasets, description, domain = []) {
  const spec = withDomain(CHARTS[name], domain);
  spec.datasets = datasets;
  spec.config = themed();
  // Vega-Lite fits a width to its container only if the height is a number.
  if (spec.height.step) {
    const rows = unique(datasets[ROWS_OF[name]].map((row) => row.method));
    spec.height = spec.height.step * rows.length;
  }
  const many = Object.values(datasets).reduce((sum, rows) => sum + rows.length, 0) > MOST_ELEMENTS;
  const renderer = many ? "canvas" : "svg";
  const shown = await vegaEmbed(place, spec, { actions: false, renderer });
  // Vega has given it another role, in which every mark would be read.
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", description);
  return shown.view;
}
