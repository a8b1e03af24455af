// The data of the page: tables by columns, and what is chosen.
"use strict";

const DATA = JSON.parse(document.getElementById("data").textContent);
const CHARTS = JSON.parse(document.getElementById("charts").textContent);
const chosen = { suite: null, cell: null, place: null };
const CELL = ["dataset", "model", "workers", "nodes"];

// The rows of a table of the chosen suite, as objects. Tables are decoded once.
function rowsOf(name, suite = chosen.suite) {
  suite.decoded ??= {};
  suite.decoded[name] ??= decode(suite.tables[name] ?? {});
  return suite.decoded[name];
}

function decode(columns) {
  const lists = Object.entries(columns).map(([name, column]) => [name, valuesOf(column)]);
  const length = lists.length ? lists[0][1].length : 0;
  return Array.from({ length }, (_, i) => Object.fromEntries(lists.map(([name, list]) => [name, list[i]])));
}

const INFINITE = { inf: Infinity, "-inf": -Infinity };

function valuesOf(column) {
  if (Array.isArray(column)) return column.map((value) => INFINITE[value] ?? value);
  return column.codes.map((code) => (code < 0 ? null : column.words[code]));
}

// Is a row of a cell? Simulated clusters may have other numbers of nodes, so these can be left out.
function inCell(row, keys = CELL, cell = chosen.cell) {
  return keys.every((key) => row[key] === cell[key]);
}

const SIMULATED_CELL = CELL.slice(0, 3);

function sizeOf(cell) {
  const workers = `${cell.workers} worker${cell.workers > 1 ? "s" : ""}`;
  return cell.nodes > 1 ? `${workers} on ${cell.nodes} nodes` : workers;
}

function cellName(cell = chosen.cell) {
  return `${cell.dataset}, ${cell.model}, ${sizeOf(cell)}`;
}

// As in the tables of the pipeline: 99.96 % is not rounded to 100 %.
function percent(value) {
  if (value === null || value === undefined) return "";
  const text = value > 99 && value < 100 ? value.toFixed(2) : value.toFixed(1);
  return text === "-0.0" ? "0.0" : text.replace("-", "−");
}

function seconds(value) {
  if (value === null || value === undefined) return "";
  return value === Infinity ? "not reached" : `${Number(value.toPrecision(3))} s`;
}

function megabytes(bytes) {
  return bytes === null || bytes === undefined ? "" : (bytes / 1e6).toFixed(3);
}

// A sentence, whose names in backticks are shown as code.
function prose(text) {
  const parts = text.split(/`([^`]+)`/);
  return element("span", {}, ...parts.map((part, i) => (i % 2 ? element("code", {}, part) : part)));
}

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}
