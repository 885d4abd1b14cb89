// Draws the charts, switches the theme, steps through a run, and moves through the lines of the source.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const all = (selector) => [...document.querySelectorAll(selector)];
  const colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();
  const made = new Map();
  const escaped = (text) => String(text).replace(/[&<>"]/g, (it) => `&#${it.charCodeAt(0)};`);
  const shortPlace = (place) => (place || "").split("/").pop();

  // --- theme ---------------------------------------------------------------------------------------------------------
  const system = matchMedia("(prefers-color-scheme: dark)");
  const setTheme = (dark) => { root.dataset.theme = dark ? "dark" : "light"; drawAll(); };
  document.getElementById("theme").addEventListener("click", () => setTheme(root.dataset.theme !== "dark"));
  system.addEventListener("change", (event) => setTheme(event.matches));

  // --- charts --------------------------------------------------------------------------------------------------------
  const PALETTE = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#8A8A8A", "#B8A800"];
  const text = () => ({ color: colour("ink"), fontFamily: "system-ui, sans-serif" });
  const axis = () => ({
    axisLabel: { color: colour("ink"), hideOverlap: true }, axisLine: { lineStyle: { color: colour("quiet") } },
    splitLine: { lineStyle: { color: colour("edge") } }, nameTextStyle: { color: colour("quiet") },
  });
  const tooltip = () => ({ confine: true, backgroundColor: colour("back"), borderColor: colour("edge"), textStyle: text() });

  function bars(chart, width) {
    const narrow = width < 600;
    const label = narrow ? 118 : 280;
    const least = chart.names.some((it) => it.length > 45) ? 40 : 26; // a label of two lines
    const row = chart.stacked ? least : 12 + 14 * chart.series.length;
    const height = 80 + chart.names.length * Math.max(row, narrow ? 48 : least);
    return [height, {
      color: PALETTE, textStyle: text(), tooltip: { ...tooltip(), trigger: "item" }, animation: false,
      legend: { type: "scroll", top: 0, textStyle: text(), show: chart.series.length > 1 },
      grid: { left: label + 8, right: 24, top: chart.series.length > 1 ? 30 : 8, bottom: 44 },
      xAxis: { type: "value", name: chart.unit, nameLocation: "middle", nameGap: 26, max: chart.limit || null, ...axis() },
      yAxis: { type: "category", data: chart.names, inverse: true, ...axis(),
        axisLabel: { color: colour("ink"), width: label, overflow: "break", fontSize: narrow ? 11 : 12, lineHeight: narrow ? 13 : 14 } },
      series: chart.series.map((it) => ({
        type: "bar", name: it.name, data: it.values, stack: chart.stacked ? "all" : undefined, barMaxWidth: 18,
      })),
    }];
  }

  function timeline(chart, width) {
    const narrow = width < 600;
    const left = narrow ? 88 : 110;
    const ROW = 22, HEAD = narrow ? 42 : 30;
    const end = Math.max(...chart.panels.map((it) => it.cycles));
    let top = 26;
    const grids = [], xs = [], ys = [], series = [];
    chart.panels.forEach((panel, number) => {
      const height = panel.rows.length * ROW;
      const last = number === chart.panels.length - 1;
      grids.push({ left, right: 30, top: top + HEAD, height, outerBoundsMode: "none" }); // the axes of all panels are one
      xs.push({ type: "value", gridIndex: number, min: 0, max: end, ...axis(), axisLabel: { show: last, color: colour("ink"), hideOverlap: true },
        name: last ? "cycles of one SM" : "", nameLocation: "middle", nameGap: 24 });
      ys.push({ type: "category", gridIndex: number, data: panel.rows, inverse: true, ...axis(), splitLine: { show: false },
        name: narrow ? panel.title.replace(": ", ":\n") : panel.title, nameLocation: "start", nameGap: 8,
        nameTextStyle: { align: "left", padding: [0, 0, 0, -left + 6], color: colour("ink"), fontWeight: "bold", fontSize: narrow ? 11 : 13, lineHeight: 15 },
        axisLabel: { color: colour("ink"), width: left - 8, overflow: "truncate", fontSize: narrow ? 11 : 12 }, axisTick: { show: false } });
      chart.kinds.forEach((kind, index) => {
        const spans = panel.spans.filter((it) => it[3] === index);
        series.push({
          type: "custom", name: kind.word, xAxisIndex: number, yAxisIndex: number, clip: true, data: spans,
          encode: { x: [1, 2], y: 0 }, itemStyle: { color: kind.wait ? colour("wait") : kind.colour },
          renderItem: (_, api) => {
            const from = api.coord([api.value(1), api.value(0)]), to = api.coord([api.value(2), api.value(0)]);
            return { type: "rect", shape: { x: from[0], y: from[1] - ROW * 0.4, width: Math.max(1, to[0] - from[0]), height: ROW * 0.8 },
              style: { fill: api.visual("color") } };
          },
          tooltip: { formatter: (it) => told(panel, kind, it.data) },
        });
      });
      top += HEAD + height + 14;
    });
    const zoomed = xs.map((_, index) => index);
    return [top + 74, {
      textStyle: text(), animation: false, tooltip: { ...tooltip(), trigger: "item" },
      legend: { type: "scroll", top: 0, textStyle: text(), data: chart.kinds.map((it) => it.word) },
      grid: grids, xAxis: xs, yAxis: ys, series,
      dataZoom: [
        { type: "inside", xAxisIndex: zoomed, filterMode: "weakFilter", zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false },
        { type: "slider", xAxisIndex: zoomed, filterMode: "weakFilter", bottom: 6, height: 22, textStyle: text(), showDetail: !narrow },
      ],
    }];
  }

  const plainly = (panel, kind, span) => {
    const [row, begin, end, , label, slot, line] = span;
    const { labels, lines } = data.charts.timeline, place = lines[line];
    const where = slot === null ? "" : `, slot ${slot}`;
    return `${panel.rows[row]}: ${kind.word} (${labels[label]}${where}), ${begin} to ${end}, ${end - begin} cycles${place ? `, ${shortPlace(place)}` : ""}`;
  };
  const told = (panel, kind, span) => escaped(plainly(panel, kind, span)).replace(/, (\d+ to)/, "<br>$1");

  function draw(place) {
    const chart = data.charts[place.dataset.chart];
    const [height, option] = (chart.kind === "timeline" ? timeline : bars)(chart, place.clientWidth);
    let drawn = made.get(place);
    if (!drawn) {
      place.style.height = `${height}px`;
      drawn = echarts.init(place);
      made.set(place, drawn);
      if (chart.kind === "timeline") interact(place, drawn, chart);
    }
    const zoom = (drawn.getOption() || {}).dataZoom;
    if (zoom && option.dataZoom) option.dataZoom.forEach((it) => { it.start = zoom[0].start; it.end = zoom[0].end; });
    place.style.height = `${height}px`;
    drawn.resize();
    drawn.setOption(option, true);
  }
  function drawAll() { all(".chart").forEach(draw); }

  function interact(place, drawn, chart) {
    place.tabIndex = 0;
    const zoom = (how) => {
      const { start, end } = drawn.getOption().dataZoom[0];
      const size = end - start, middle = (start + end) / 2;
      const sizes = { in: size / 2, out: size * 2, all: 100 };
      const wanted = Math.min(100, sizes[how] || size);
      const moved = { left: -size / 4, right: size / 4 }[how] || 0;
      const from = Math.min(100 - wanted, Math.max(0, middle + moved - wanted / 2));
      drawn.dispatchAction({ type: "dataZoom", dataZoomIndex: 0, start: from, end: from + wanted });
      place.dataset.zoom = `${from.toFixed(2)}..${(from + wanted).toFixed(2)}`;
    };
    all("[data-zoom]").filter((it) => it.tagName === "BUTTON").forEach((it) => it.addEventListener("click", () => zoom(it.dataset.zoom)));
    const keys = { "+": "in", "=": "in", "-": "out", ArrowLeft: "left", ArrowRight: "right", 0: "all", Home: "all" };
    place.addEventListener("keydown", (event) => {
      if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
      zoom(keys[event.key]);
      event.preventDefault();
      event.stopPropagation();
    });
    const panels = chart.kinds.length;
    drawn.on("click", (event) => {
      const panel = chart.panels[Math.floor(event.seriesIndex / panels)];
      document.getElementById("span").textContent = plainly(panel, chart.kinds[event.data[3]], event.data);
      const line = event.data[6];
      markLines(line === null ? [] : [chart.lines[line]]);
    });
  }

  // --- source --------------------------------------------------------------------------------------------------------
  const lines = new Map(all(".code li").map((it) => [it.dataset.line, it]));
  function markLines(places) {
    lines.forEach((line, place) => line.classList.toggle("here", places.includes(place)));
  }
  function select(line) {
    const list = line.parentElement;
    list.querySelectorAll(".current").forEach((it) => it.classList.remove("current"));
    line.classList.add("current");
    list.setAttribute("aria-label", line.textContent);
  }
  all(".code").forEach((list) => {
    list.addEventListener("click", (event) => { const line = event.target.closest("li"); if (line) select(line); });
    list.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
      const now = list.querySelector(".current");
      const next = now ? (event.key === "ArrowDown" ? now.nextElementSibling : now.previousElementSibling) : list.firstElementChild;
      if (next) { select(next); next.scrollIntoView({ block: "nearest", inline: "nearest" }); }
      event.preventDefault();
    });
  });

  // --- the run that goes wrong ---------------------------------------------------------------------------------------
  const steps = data.steps || [];
  const rows = all("#run tbody tr");
  let at = -1;
  function step(to) {
    at = Math.max(0, Math.min(steps.length - 1, to));
    rows.forEach((row, number) => {
      row.classList.toggle("now", number === at);
      row.classList.toggle("later", number > at);
      if (number === at) row.setAttribute("aria-current", "step"); else row.removeAttribute("aria-current");
    });
    const box = document.querySelector(".run"), row = rows[at];
    if (row.offsetTop < box.scrollTop + 32 || row.offsetTop + row.offsetHeight > box.scrollTop + box.clientHeight)
      box.scrollTop = row.offsetTop - box.clientHeight / 2;
    const now = steps[at];
    const slot = now.slot === null ? "" : `[${now.slot}]`;
    document.getElementById("step").textContent =
      `step ${at + 1} of ${steps.length}: ${now.partition}: ${now.action} ${now.target || ""}${slot} ${shortPlace(now.location)}`;
    places(at);
    const last = new Map(steps.slice(0, at + 1).filter((it) => it.location).map((it) => [it.partition, it.location]));
    markLines(now.location ? [now.location] : [...last.values()]);
  }
  // A row for each ring, barrier or buffer, a column for each slot: its last use up to this step.
  const slots = [...new Set(steps.filter((it) => it.target && it.slot !== null).map((it) => it.slot))].sort((a, b) => a - b);
  const targets = [...new Set(steps.filter((it) => it.target).map((it) => it.target))].sort();
  const cell = (tag, text, now = false) => Object.assign(document.createElement(tag), { textContent: text, className: now ? "now" : "" });
  function places(until) {
    const last = new Map();
    steps.slice(0, until + 1).forEach((it) => { if (it.target) last.set(`${it.target}|${it.slot}`, it); });
    const row = (target) => {
      const made = document.createElement("tr");
      made.append(cell("th", target), ...(slots.length ? slots : [null]).map((slot) => {
        const it = last.get(`${target}|${slot}`) || last.get(`${target}|null`);
        const parity = it && it.parity !== null ? ` parity ${it.parity}` : "";
        return cell("td", it ? `${it.action}${parity} (${it.partition})` : "–", it === steps[until]);
      }));
      return made;
    };
    document.querySelector("#places tbody").replaceChildren(...targets.map(row));
  }
  function placesHead() {
    const head = document.createElement("tr");
    head.append(cell("th", "place"), ...(slots.length ? slots.map((it) => cell("th", `slot ${it}`)) : [cell("th", "last use")]));
    document.querySelector("#places thead").replaceChildren(head);
  }
  if (steps.length) {
    placesHead();
    all("[data-step]").forEach((it) => it.addEventListener("click", () => step(at + Number(it.dataset.step))));
    const keys = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest(".code, .chart")) return;
      const inside = event.target.closest("#verdict");
      const sideways = event.key === "ArrowLeft" || event.key === "ArrowRight";
      if (event.key === "Home" && inside) step(0);
      else if (event.key === "End" && inside) step(steps.length - 1);
      else if (keys[event.key] && (inside || sideways)) step(at + keys[event.key]);
      else return;
      event.preventDefault();
    });
    step(0);
  }

  let width = innerWidth;
  addEventListener("resize", () => { if (innerWidth !== width) { width = innerWidth; drawAll(); } });
  setTheme(system.matches);
})();
