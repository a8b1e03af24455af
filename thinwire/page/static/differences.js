// The forest: for each method the mean paired difference to the baseline, and its interval.
"use strict";

const MOST_MARGINS = 20; // how far the chart reaches, in margins

function showDifferences() {
  const rows = rowsOf("comparisons").filter((row) => inCell(row));
  const known = rows.filter((row) => row.difference_mean_points !== null);
  const pairs = known.map((row) => ({ ...row, interval: intervalText(row) }));
  const place = document.querySelector("#differences .chart");
  place.hidden = !pairs.length;
  const table = document.querySelector("#differences table");
  table.hidden = !rows.length;
  const note = document.getElementById("differences-note");
  note.textContent = "";
  if (!rows.length) return;
  const [{ against, margin_points: margin }] = rows;
  note.textContent =
    `Differences are to ${against}, in pairs of runs with the same seed. Lines are 95 % intervals. ` +
    `The band is the margin of ± ${margin} points.`;
  const fixed = (value) => (value === null ? "" : value.toFixed(2).replace("-", "−"));
  const signed = (value) => (value > 0 ? "+" : "") + fixed(value);
  fillTable(table, [
    { title: "method", key: (row) => row.method, text: (row) => methodLink(row.method) },
    {
      title: "difference, points", key: (row) => row.difference_mean_points,
      text: (row) => signed(row.difference_mean_points), number: true,
    },
    { title: "95 % interval", key: (row) => row.difference_low_points, text: intervalText },
    { title: "pairs", key: (row) => row.n, number: true },
    {
      title: "detectable, points", key: (row) => row.detectable_points,
      text: (row) => fixed(row.detectable_points), number: true,
    },
    { title: "verdict", key: (row) => row.words, words: true },
  ], rows);
  if (!pairs.length) return;
  const description = `Differences in accuracy to ${against} on ${cellName()}. The table has the numbers.`;
  const drawn = ["difference_low_points", "difference_mean_points", "difference_high_points"];
  const ends = pairs.flatMap((row) => drawn.map((name) => row[name]));
  const widest = MOST_MARGINS * margin;
  const reach = Math.min(Math.max(margin, ...ends.map(Math.abs)), widest);
  if (ends.some((end) => Math.abs(end) > widest)) {
    note.textContent += ` What lies beyond ± ${widest} points is cut; the table has it.`;
  }
  draw(place, "differences", { pairs, band: [{ low: -margin, high: margin }] }, description, [-reach, reach]);
}

function intervalText(row) {
  const [low, high] = [row.difference_low_points, row.difference_high_points];
  return low === null ? "" : `${low.toFixed(2)} to ${high.toFixed(2)}`.replaceAll("-", "−");
}
