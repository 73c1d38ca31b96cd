"use strict";
// Draws window.DASHBOARDS with uPlot; every line is asked from the Prometheus that serves this page.
(() => {
  const { title, cluster, pages } = window.DASHBOARDS;
  const RANGES = { "5 min": 300, "15 min": 900, "1 h": 3600, "6 h": 21600 };
  const COLORS = ["#2563eb", "#e8590c", "#12a150", "#9b51e0", "#e3267a", "#0aa2c0", "#b58900", "#6b7280"];
  const LIMIT = "#d92d20";
  const REFRESH_MS = 5000;
  const el = (tag, className, text) => {
    const node = document.createElement(tag);
    if (className) node.className = className;
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const $ = (id) => document.getElementById(id);
  const asked = new URLSearchParams(location.search);
  let page = pages.find((p) => p.name === asked.get("page")) || pages[0];
  let range = Number(asked.get("range")) || 900;
  let charts = [];
  let round = 0;

  const short = (value) => {
    const size = Math.abs(value);
    if (size >= 1e9) return (value / 1e9).toFixed(1) + "G";
    if (size >= 1e6) return (value / 1e6).toFixed(1) + "M";
    if (size >= 1e4) return (value / 1e3).toFixed(1) + "k";
    if (size >= 100 || Number.isInteger(value)) return value.toFixed(0);
    return value.toPrecision(2).replace(/(\.\d*?)0+$/, "$1").replace(/\.$/, "");
  };
  // how a value is written: `style` of a unit, after its `scale`
  const STYLES = {
    duration: (value) => (value === 0 ? "0" : Math.abs(value) < 1 ? short(value * 1000) + " ms" : short(value) + " s"),
    money: (value) => "$" + value.toFixed(value >= 100 ? 0 : 2),
    number: short,
    share: (value) => value.toFixed(value < 10 && value > 0 ? 1 : 0) + " %",
  };
  const shown = (value, unit) =>
    value === null || value === undefined || Number.isNaN(value) ? "–" : STYLES[unit.style](value * unit.scale);

  const ask = async (path, fields) => {
    const answer = await fetch(path + "?" + new URLSearchParams(fields));
    const body = await answer.json();
    if (body.status !== "success") throw new Error(body.error);
    return body.data;
  };
  const named = (legend, labels) => legend.replace(/\{\{(\w+)\}\}/g, (_, label) => labels[label] || "").trim() || "all";

  const times = () => {
    const step = Math.max(1, Math.round(range / 240));
    const end = Math.floor(Date.now() / 1000 / step) * step;
    const xs = [];
    for (let at = end - range; at <= end; at += step) xs.push(at);
    return { xs, step };
  };

  const series = async (panel, { xs, step }) => {
    const lines = [];
    for (const query of panel.queries) {
      const found = await ask("/api/v1/query_range", { query: query.expr, start: xs[0], end: xs[xs.length - 1], step });
      for (const one of found.result) {
        const at = new Map(one.values.map(([time, value]) => [time, Number(value)]));
        const ys = xs.map((x) => { const y = at.get(x); return y === undefined || Number.isNaN(y) ? null : y; });
        lines.push({ name: named(query.legend, one.metric), ys, limit: query.is_limit });
      }
    }
    return lines.sort((a, b) => a.limit - b.limit || a.name.localeCompare(b.name));
  };

  const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const draw = (chart, { xs }, lines) => {
    const { panel, box, legend } = chart;
    const measured = lines.filter((line) => !line.limit);
    box.querySelector(".empty")?.remove();
    if (!measured.some((line) => line.ys.some((y) => y !== null))) {
      chart.plot?.destroy(); chart.plot = null; legend.textContent = "";
      box.append(el("div", "empty", panel.may_be_empty ? "nothing of this kind yet" : "no samples in this range"));
      return;
    }
    let color = 0;
    const strokes = lines.map((line) => (line.limit ? LIMIT : COLORS[color++ % COLORS.length]));
    const data = [xs, ...lines.map((line) => line.ys)];
    const key = lines.map((line) => line.name).join("|");
    if (chart.plot && chart.key === key) {
      chart.plot.setData(data);
    } else {
      chart.plot?.destroy();
      chart.key = key;
      const axis = { stroke: ink("--dim"), font: "11px system-ui, sans-serif", grid: { stroke: ink("--line"), width: 1 }, ticks: { show: false } };
      chart.plot = new uPlot({
        width: box.clientWidth, height: box.clientHeight, padding: [10, 26, 0, 0],
        cursor: { sync: { key: "all" }, points: { size: 6 }, drag: { x: false, y: false } },
        scales: { y: { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.12 : 1] } },
        axes: [{ ...axis, size: 30, space: 70, values: (_, at) => at.map((t) => new Date(t * 1000).toTimeString().slice(0, range < 1800 ? 8 : 5)) },
               { ...axis, size: 62, values: (_, at) => at.map((v) => shown(v, panel.unit)) }],
        series: [{}, ...lines.map((line, i) => ({
          label: line.name, stroke: strokes[i], width: line.limit ? 1.5 : 2, dash: line.limit ? [6, 5] : undefined,
          fill: !line.limit && measured.length < 3 ? strokes[i] + "18" : undefined, points: { show: false }, spanGaps: false }))],
        hooks: { setCursor: [() => label(chart)] },
      }, data, box);
    }
    chart.lines = lines; chart.strokes = strokes;
    label(chart);
  };

  const last = (ys) => { for (let i = ys.length - 1; i >= 0; i--) if (ys[i] !== null) return ys[i]; return null; };
  const label = ({ panel, plot, lines, strokes, legend }) => {
    if (!plot || !lines) return;
    const at = plot.cursor.idx;
    legend.replaceChildren(...lines.map((line, i) => {
      const item = el("span", "", line.name);
      item.style.setProperty("--c", strokes[i]);
      item.append(el("b", "", shown(at === null || at === undefined ? last(line.ys) : line.ys[at], panel.unit)));
      return item;
    }));
  };

  const runbook = (path) => {
    const link = el("a", "", path ? "runbook" : "");
    if (path) link.href = "runbooks/" + path.split("/").pop().replace(/\.md$/, ".html");
    return link;
  };

  const alerts = async () => {
    const { alerts: found } = await ask("/api/v1/alerts", {});
    const firing = found.filter((one) => one.state === "firing");
    const pending = found.length - firing.length;
    const lines = firing.map((one) => {
      const line = el("div", "alert " + (one.labels.severity || ""));
      const about = ["job", "pod", "deployment"].map((key) => one.labels[key]).filter(Boolean).join(" ");
      line.append(el("b", "", one.labels.alertname), el("span", "", [about, one.annotations.summary].filter(Boolean).join(": ")),
        runbook(one.annotations.runbook));
      return line;
    });
    if (!lines.length) {
      const calm = el("div", "alert calm");
      calm.append(el("b", "", "No alert fires"), el("span", "", pending ? pending + " pending" : ""));
      lines.push(calm);
    }
    $("alerts").replaceChildren(...lines);
  };

  const TILES = pages.flatMap((p) => p.rows).flatMap((row) => row.panels).filter((panel) => panel.tile);
  const instant = async (query) => (await ask("/api/v1/query", { query })).result.map((one) => Number(one.value[1])).filter((v) => !Number.isNaN(v));
  const tiles = async () => {
    const made = await Promise.all(TILES.map(async (panel) => {
      const { title, reduce } = panel.tile;
      const values = [], limits = [];
      for (const query of panel.queries) (query.is_limit ? limits : values).push(...await instant(query.expr));
      const value = !values.length ? null : reduce === "sum" ? values.reduce((a, b) => a + b, 0) : Math.max(...values);
      const over = reduce === "max" && limits.length && value > Math.max(...limits);
      const tile = el("div", "tile" + (over ? " over" : ""));
      const number = el("b", "", shown(value, panel.unit));
      if (panel.unit.suffix && value !== null) number.append(el("small", "", panel.unit.suffix));
      tile.append(el("span", "", title), number);
      return tile;
    }));
    $("tiles").replaceChildren(...made);
  };

  const refresh = async () => {
    const now = ++round;
    try {
      const when = times();
      await Promise.all([alerts(), tiles(), ...charts.map(async (chart) => {
        const lines = await series(chart.panel, when);
        if (now === round) draw(chart, when, lines);
      })]);
      $("state").textContent = "Updated " + new Date().toTimeString().slice(0, 8) + ", every 5 s. Charts: your clock. Alerts: the twin's clock, " + window.DASHBOARDS.speed + " times as fast.";
      document.body.dataset.ready = "yes";
    } catch (error) {
      $("state").textContent = "Prometheus does not answer: " + error.message;
    }
  };

  const layout = () => {
    charts = [];
    document.title = page.title + " · " + title;
    $("rows").replaceChildren(...page.rows.flatMap((row) => {
      const grid = el("div", "grid");
      for (const panel of row.panels) {
        const card = el("article", "panel");
        const box = el("div", "chart"), legend = el("div", "legend");
        card.append(el("h3", "", panel.title), el("p", "", panel.description), box, legend);
        grid.append(card);
        charts.push({ panel, box, legend });
      }
      return [el("h2", "", row.title), grid];
    }));
    $("pages").replaceChildren(...pages.map((one) => button(one.title, one === page, () => { page = one; layout(); })));
    $("ranges").replaceChildren(...Object.entries(RANGES).map(([name, seconds]) =>
      button(name, seconds === range, () => { range = seconds; layout(); })));
    history.replaceState(null, "", "?" + new URLSearchParams({ page: page.name, range }));
    refresh();
  };
  const button = (text, pressed, action) => {
    const made = el("button", "", text);
    made.setAttribute("aria-pressed", pressed);
    made.onclick = action;
    return made;
  };

  $("title").textContent = title;
  $("cluster").textContent = cluster;
  addEventListener("resize", () => { for (const c of charts) c.plot?.setSize({ width: c.box.clientWidth, height: c.box.clientHeight }); });
  layout();
  setInterval(refresh, REFRESH_MS);
})();
