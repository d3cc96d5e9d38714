"use strict";
const data = JSON.parse(document.getElementById("data").textContent);
const form = document.getElementById("filters");
const SHOWN = 200;
const severity = new Map(data.order.map((name, index) => [name, index]));
const all = data.runs.flatMap((run) => run.cases.map((one) => ({ ...one, run })));

function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function value(one, name) {
  return name === "family" || name === "clause" ? one[name] : one.d[name] || "";
}

function option(name, values) {
  for (const each of [...values].sort()) form.elements[name].append(element("option", {}, each));
}

// The address holds the filters, so that a view can be sent to somebody.
function fromAddress() {
  const query = new URLSearchParams(location.hash.slice(1));
  for (const [name, text] of query) if (form.elements[name]) form.elements[name].value = text;
  return query;
}

function toAddress(extra) {
  const query = new URLSearchParams();
  for (const [name, text] of new FormData(form)) if (text) query.set(name, text);
  for (const [name, text] of Object.entries(extra)) if (text) query.set(name, text);
  history.replaceState(null, "", "#" + query.toString());
}

let cell = {};

function matches(one) {
  const want = Object.fromEntries(new FormData(form));
  if (want.verdict && one.verdict !== want.verdict) return false;
  if (want.op && one.d.op !== want.op) return false;
  if (!want.text) return true;
  const text = want.text.toLowerCase();
  return one.id.toLowerCase().includes(text) || (one.message || "").toLowerCase().includes(text);
}

function inCell(one) {
  if (!cell.row) return true;
  return value(one, form.elements.rows.value) === cell.row && value(one, form.elements.cols.value) === cell.col &&
    one.run.name === cell.run;
}

function worst(cases) {
  return cases.reduce((top, one) => severity.get(one.verdict) > severity.get(top) ? one.verdict : top, "pass");
}

function heatMap(run, cases) {
  const rowName = form.elements.rows.value, colName = form.elements.cols.value;
  const cells = new Map(), rows = new Set(), cols = new Set();
  for (const one of cases) {
    const row = value(one, rowName), col = value(one, colName);
    if (!row || !col) continue;
    rows.add(row); cols.add(col);
    const key = row + "\n" + col;
    cells.set(key, [...(cells.get(key) || []), one]);
  }
  const order = [...cols].sort();
  const body = [...rows].sort().map((row) => element("tr", {}, element("th", {}, row), ...order.map((col) => {
    const inside = cells.get(row + "\n" + col);
    if (!inside) return element("td", {});
    const top = worst(inside), passed = inside.filter((one) => one.verdict === "pass").length;
    const made = element("td", { class: "cell v-" + top, tabindex: "0", title: `${row} ${col}: ${top}, ${passed} of ${inside.length} pass` },
      `${data.glyphs[top] || "✗"} ${passed}/${inside.length}`);
    made.onclick = () => { cell = { row, col, run: run.name }; draw(); };
    made.onkeydown = (event) => { if (event.key === "Enter") made.onclick(); };
    return made;
  })));
  const head = element("tr", {}, element("th", {}, run.name), ...order.map((col) => element("th", {}, col)));
  return element("div", { class: "scroll" }, element("table", {}, element("thead", {}, head), element("tbody", {}, ...body)));
}

function rankText(rank) {
  const parts = [`rank ${rank.rank}: ${rank.outcome}`, rank.message || ""];
  if (rank.stack) parts.push("stacks:\n" + rank.stack);
  if (rank.traceback) parts.push(rank.traceback);
  return parts.filter(Boolean).join("\n");
}

function caseBox(one) {
  const box = element("details", {}, element("summary", {}, element("span", { class: "chip v-" + one.verdict }, one.verdict), one.id));
  box.ontoggle = () => {
    if (!box.open || box.children.length > 1) return;
    const clause = one.run.clauses[one.clause];
    box.append(element("p", {}, `${one.run.name}, ${one.clause} ${one.level}: ${clause.text} `, element("a", { href: clause.source }, "source")));
    if (one.message) box.append(element("p", {}, one.message));
    if (one.rerun) box.append(element("p", {}, "rerun: " + JSON.stringify(one.rerun)));
    for (const rank of one.ranks || []) box.append(element("pre", {}, rankText(rank)));
    if (one.repro) box.append(element("p", {}, element("code", {}, one.repro)));
  };
  return box;
}

function draw() {
  toAddress(cell);
  const chosen = all.filter(matches);
  document.getElementById("heat").replaceChildren(...data.runs.map((run) => heatMap(run, chosen.filter((one) => one.run === run))));
  const listed = chosen.filter(inCell).sort((a, b) => severity.get(b.verdict) - severity.get(a.verdict) || a.id.localeCompare(b.id));
  const place = cell.row ? ` in ${cell.run}, ${cell.row} x ${cell.col}` : "";
  document.getElementById("count").textContent = `${listed.length} cases${place}, worst first`;
  document.getElementById("cases").replaceChildren(...listed.slice(0, SHOWN).map(caseBox),
    ...(listed.length > SHOWN ? [element("p", { class: "more" }, `and ${listed.length - SHOWN} more: narrow the filters`)] : []));
  if (listed.length === 1) document.querySelector("#cases details").open = true;
}

option("verdict", new Set(all.map((one) => one.verdict)));
option("op", new Set(all.map((one) => one.d.op).filter(Boolean)));
const start = fromAddress();
cell = start.get("row") ? { row: start.get("row"), col: start.get("col"), run: start.get("run") } : {};
form.oninput = () => { cell = {}; draw(); };
form.onreset = () => setTimeout(() => { cell = {}; draw(); });
form.onsubmit = () => false;
draw();
