// The charts, as specifications of Vega-Lite. Colours are those of the page, so they follow its scheme.
"use strict";

const TEXT = "var(--text)", FAINT = "var(--muted)", ROW_HEIGHT = 24, CURVES_HEIGHT = 360, MOST_POINTS = 4000;
const CONFIG = {
  background: "transparent",
  font: "system-ui, sans-serif",
  view: { stroke: null },
  axis: {
    labelColor: TEXT, titleColor: TEXT, domainColor: FAINT, tickColor: FAINT, gridColor: "var(--line)",
    labelFontSize: 12, titleFontSize: 12, titleFontWeight: "normal", labelLimit: 140,
  },
  legend: {
    labelColor: TEXT, labelFontSize: 12, orient: "bottom", direction: "horizontal", title: null,
    symbolSize: 90, symbolOpacity: 1, symbolStrokeWidth: 2,
  },
  line: { color: TEXT }, point: { color: TEXT, filled: true, opacity: 1 }, rule: { color: TEXT },
};
const OVER = {
  epochs: ["epoch", "epochs", {}],
  bytes: ["megabytes", "payload pushed and pulled by a worker, MB", { type: "log" }],
  seconds: ["seconds", "seconds of training", {}],
};

// Nothing is drawn without a specification. `description` is read to those who do not see the chart.
async function draw(selector, spec, description) {
  const place = typeof selector === "string" ? document.querySelector(selector) : selector;
  place.hidden = !spec;
  if (!spec) return;
  place.shown?.finalize();
  // As many columns as fit: if Vega counts them, it cuts those that it did not expect.
  const legend = { ...CONFIG.legend, columns: Math.max(2, Math.floor(place.clientWidth / 150)) };
  const options = { mode: "vega-lite", actions: false, renderer: "svg", config: { ...CONFIG, legend } };
  const size = spec.facet ? {} : { width: "container" };
  place.shown = await vegaEmbed(place, { ...size, ...spec }, options);
  // Vega has given it another role, in which every mark would be read.
  place.setAttribute("role", "img");
  place.setAttribute("aria-label", description);
}

const quantity = (field, title, more) => ({ field, type: "quantitative", title, ...more });
const nominal = (field, more) => ({ field, type: "nominal", title: null, ...more });
// What is shown of a mark: the title and, of numbers, the format of each field.
const tooltip = (fields) =>
  Object.entries(fields).map(([field, [title, format]]) => ({ field, title, format }));
// Of a suite: its score has a name, the unit that follows a value or "", and digits after the point.
const titleOf = ({ name, unit }, words = name) => (unit ? `${words}, ${unit}` : words);
const axisOf = (score) => quantity("score", titleOf(score), {
  scale: { zero: false }, axis: { format: ".4~g" },
});

// Thin lines are runs, thick ones the mean over the runs of a method, with its name at the end. Hollow points are
// simulated; they have no line. More points than `MOST_POINTS` would make the page slow: then runs have no lines of
// their own. The legend chooses methods, and the wheel with the shift key zooms.
function curvesChart(over, runs, simulated, methods, looks, score, whole, pixels) {
  const [field, title, { type = "linear" }] = OVER[over];
  const ends = endsOf(runs, field), domains = [field, "score"].map((name) => domainOf([...runs, ...simulated], name));
  if (!whole && ends.length) domains[1] = closeDomain(domains[1], ends.map((end) => end.score), score.sign);
  const x = quantity(field, title, { scale: { type, domain: domains[0], nice: false }, axis: { tickCount: pixels < 640 ? 3 : 6, labelOverlap: "greedy", labelSeparation: 8 } });
  const y = { ...axisOf(score), scale: { domain: domains[1], nice: false } };
  const look = looksOf(methods, looks), isWide = pixels >= 640, room = isWide ? 130 : 8;
  const labels = isWide ? spread(ends, field, type, domains, pixels - 60 - room) : [];
  const single = runs.length <= MOST_POINTS;
  look.color.legend = { symbolStrokeWidth: 0 };
  const chosenOf = (opacity) => ({ condition: { param: "methods", value: opacity }, value: 0.04 });
  const averaged = ["score", ...(over === "epochs" ? [] : [field])];
  const aggregate = averaged.map((name) => ({ op: "mean", field: name, as: name }));
  const means = { transform: [{ aggregate, groupby: ["method", "epoch", "width"] }] };
  const layer = (mark, encoding, more) =>
    ({ mark: { clip: true, ...mark }, encoding: { x, y, color: look.color, ...encoding }, ...more });
  const dash = methods.map((method) => (looks[method].dash.length ? looks[method].dash : [1, 0]));
  const predicted = layer({ type: "point", size: 130, strokeWidth: 2, filled: false }, {
    shape: look.shape, opacity: chosenOf(1), tooltip: tooltip({
      method: ["method"], seconds: ["simulated seconds to the target", ".4~g"],
      score: [titleOf(score, "target"), `.${score.digits}f`],
    }),
  }, { data: { values: simulated } });
  return {
    height: CURVES_HEIGHT,
    padding: { left: 5, top: 8, bottom: 5, right: room },
    data: { values: runs },
    layer: [
      ...(single ? [layer({ type: "line", strokeWidth: 1 }, { detail: nominal("run"), opacity: chosenOf(0.15) })] : []),
      layer({ type: "line" }, {
        detail: nominal("method"), order: quantity("epoch"), opacity: chosenOf(1),
        strokeWidth: quantity("width", null, { legend: null, scale: null }),
        strokeDash: nominal("method", { scale: { domain: methods, range: dash } }),
      }, means),
      layer({ type: "point", size: 28 }, { shape: look.shape, opacity: chosenOf(1) }, { ...means, params: [
        { name: "methods", select: { type: "point", fields: ["method"] }, bind: "legend" },
        { name: "zoom", select: { type: "interval", zoom: "wheel![event.shiftKey]" }, bind: "scales" },
      ] }),
      layer({ type: "text", align: "left", dx: 8, fontSize: 11, clip: false }, {
        y: { ...y, field: "label" }, text: nominal("method"), opacity: chosenOf(1),
      }, { name: "ends", data: { values: labels } }),
      ...(single ? [layer({ type: "point", size: 120 }, { opacity: { value: 0 }, href: nominal("link"), tooltip: tooltip({
        label: ["run"], epoch: ["epoch"], score: [titleOf(score), `.${score.digits}f`],
        megabytes: ["payload, MB", ".4~g"],
      }) })] : []),
      ...(over === "seconds" ? [predicted] : []),
    ],
  };
}

// The last point of the mean of each method.
function endsOf(runs, field) {
  return Object.entries(Object.groupBy(runs, ({ method }) => method)).map(([method, rows]) => {
    const last = Math.max(...rows.map(({ epoch }) => epoch)), at = rows.filter(({ epoch }) => epoch === last);
    const meanOf = (name) => at.reduce((sum, row) => sum + row[name], 0) / at.length;
    return { method, [field]: meanOf(field), score: meanOf("score") };
  });
}

function domainOf(rows, field) {
  const values = rows.map((row) => row[field]);
  const low = values.reduce((one, other) => Math.min(one, other)), high = values.reduce((one, other) => Math.max(one, other));
  return low < high ? [low, high] : [0.99 * low, 1.01 * high];
}

// The part of a domain of scores in which the ends differ: they take at least a half of it.
function closeDomain([low, high], ends, sign) {
  if (sign > 0) return [Math.max(low, high - 2 * (high - Math.min(...ends))), high];
  return [low, Math.min(high, low + 2 * (Math.max(...ends) - low))];
}

// Labels beside the ends of lines, the uppermost first, moved down where they would cover each other.
function spread(ends, field, type, [xs, [low, high]], width) {
  const scaled = (value) => (type === "log" ? Math.log(value) : value);
  const left = (value) => width * (scaled(value) - scaled(xs[0])) / (scaled(xs[1]) - scaled(xs[0]) || 1);
  const top = (value) => CURVES_HEIGHT * (high - value) / (high - low || 1);
  const placed = [], step = 13;
  const covers = (box) => placed.some((other) => Math.abs(box.y - other.y) < step && box.x < other.end && other.x < box.end);
  for (const end of [...ends].sort((one, other) => other.score - one.score)) {
    const x = left(end[field]), box = { x, end: x + 8 + 7 * end.method.length, y: top(end.score) };
    while (covers(box)) box.y += 1;
    placed.push({ ...box, ...end, label: high - box.y * (high - low) / CURVES_HEIGHT });
  }
  return placed.map(({ x, y, end, ...label }) => label);
}

// A row for each method, a column for each rate; lines at the break-even rates and at the rate of the slider.
function breakEvenChart(cells, crossings) {
  const domain = [...new Set(cells.map((cell) => cell.method))];
  const y = nominal("method", { scale: { domain } });
  const ends = [Math.min(...cells.map(({ low }) => low)), Math.max(...cells.map(({ high }) => high))];
  const rate = (field) => quantity(field, "rate of each link, Gbit/s", {
    scale: { type: "log", nice: false, domain: ends }, axis: axisOfRates(cells),
  });
  // Blue: faster than the better baseline. Orange: slower. The number says it without colour.
  const scale = { type: "log", domain: [0.2, 1, 5], range: ["#d9772b", "#f4f4f4", "#2f78b7"], clamp: true };
  const color = quantity("speed_up", null, { legend: null, scale });
  return {
    height: ROW_HEIGHT * domain.length,
    data: { values: cells },
    params: [{ name: "rate", value: 0, bind: { element: "#rate" } }],
    encoding: { y },
    layer: [
      {
        mark: { type: "rect", stroke: "#8886", strokeWidth: 0.5 },
        encoding: { x: rate("low"), x2: { field: "high" }, color, tooltip: tooltip({
          method: ["method"], rate: ["Gbit/s", "~g"], speed_up: ["speed-up, simulated", ".3f"],
        }) },
      },
      {
        data: { values: [{}] },
        mark: { type: "rule", strokeWidth: 2, strokeDash: [5, 3], color: "#555" },
        encoding: { x: { datum: { expr: "pow(10, rate)" }, type: "quantitative" }, y: null },
      },
      {
        data: { values: crossings },
        mark: { type: "tick", thickness: 3, size: ROW_HEIGHT - 4, color: "#b3005e", opacity: 1 },
        encoding: { x: rate("rate"), tooltip: tooltip({ words: ["break-even"] }) },
      },
      {
        // Its outline has the colour of its cell, so that no line or mark covers it.
        mark: { type: "text", fontSize: 10, fill: "#111", strokeWidth: 4 },
        encoding: { x: rate("rate"), text: nominal("shown"), stroke: color },
      },
    ],
  };
}

// Only the simulated rates have labels, and on a phone as many of them as fit.
const axisOfRates = (rows) =>
  ({ values: unique(rows.map(({ rate }) => rate)), format: "~g", labelOverlap: "greedy", labelSeparation: 4 });

// The colours and shapes of methods.
function looksOf(methods, looks) {
  const scaleOf = (name) => ({ scale: { domain: methods, range: methods.map((method) => looks[method][name]) } });
  return { color: nominal("method", scaleOf("colour")), shape: nominal("method", scaleOf("shape")) };
}

// Simulated seconds until each method reaches the target, over the rate of the links.
function secondsChart(rows, looks) {
  const { color, shape } = looksOf(unique(rows.map(({ method }) => method)), looks);
  const onLog = (field, title, axis) => quantity(field, title, { scale: { type: "log", nice: false, padding: 8 }, axis });
  return {
    height: 220,
    data: { values: rows },
    encoding: {
      x: onLog("rate", "rate of each link, Gbit/s", axisOfRates(rows)),
      y: onLog("seconds", "seconds to the target", { format: "~g", labelOverlap: true }), color,
    },
    layer: [
      { mark: { type: "line", strokeWidth: 1.8 } },
      { mark: { type: "point", size: 50 }, encoding: { shape, tooltip: tooltip({
        method: ["method"], rate: ["Gbit/s", "~g"], seconds: ["simulated seconds to the target", ".4~g"],
      }) } },
    ],
  };
}

// A panel for each cell: mean paired differences with their intervals over the bytes saved, and a band for what is the
// same. What is outside of `reach` is cut, because one method may be so far off that the others are unreadable.
function lossChart(rows, cells, margin, reach, score, looks, pixels) {
  const panels = Math.max(1, Math.min(3, cells.length, Math.floor(pixels / 330)));
  const look = looksOf(unique(rows.map(({ method }) => method)), looks);
  const x = quantity("saved_percent", "payload saved, %", { scale: { nice: false, padding: 12 }, axis: { tickCount: 6 } });
  const y = (field) => quantity(field, score.gain, { scale: { domain: reach, nice: false, padding: 6 } });
  const more = tooltip({
    method: ["method"], interval: ["95 % interval"], gain_mean: [`difference, ${score.gain_unit}`, `+.${score.digits}f`],
    saved_percent: ["payload saved, %", ".1f"], words: ["verdict"], n: ["pairs"],
  });
  return {
    data: { values: rows },
    facet: nominal("cell", { sort: cells, header: { labelColor: TEXT, labelFontSize: 12, labelLimit: 320 } }),
    columns: panels,
    spacing: 24,
    spec: {
      width: Math.floor((pixels - 70) / panels) - 24,
      height: 240,
      encoding: { color: look.color },
      layer: [
        { data: { values: [{}] }, mark: { type: "rect", opacity: 0.18, color: "#2f78b7" }, encoding: { y: { datum: -margin }, y2: { datum: margin }, color: null } },
        { data: { values: [{}] }, mark: { type: "rule", strokeDash: [3, 3] }, encoding: { y: { datum: 0 }, color: null } },
        { mark: { type: "rule", strokeWidth: 1.5, clip: true, opacity: 0.7 }, encoding: { x, y: y("gain_low"), y2: { field: "gain_high" } } },
        { mark: { type: "point", size: 80, clip: true }, encoding: { x, y: y("gain_mean"), shape: look.shape, tooltip: more } },
      ],
    },
  };
}

// The score of one run.
function runChart(rows, score) {
  const axis = { values: rows.map((row) => row.epoch), labelOverlap: true };
  const x = quantity("epoch", "epochs", { axis });
  const shown = tooltip({ epoch: ["epoch"], score: [titleOf(score), `.${score.digits}f`] });
  const mark = { type: "line", point: true };
  return { height: 160, data: { values: rows }, mark, encoding: { x, y: axisOf(score), tooltip: shown } };
}
