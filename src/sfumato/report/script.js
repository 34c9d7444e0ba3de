"use strict";
// The report works without this script: it only replaces still pictures by live ones.
(() => {
  const held = JSON.parse(document.getElementById("data").textContent);
  const { names, colours, levels, columns, rows, planes, classes } = held;
  const n = names.length;
  const state = { cluster: null, limit: 1, hit: null, query: "" };
  // What follows from the level: memberships are sums of those at the finest one.
  let level, clusters, k, memberships, own, certainty, blends, paints;
  const painters = [];
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.setAttribute("role", "status");
  document.body.append(tip);

  const visible = (i) =>
    certainty[i] <= state.limit + 1e-9 &&
    (state.query === "" || [names[i], ...rows[i], ...(classes ? [classes.values[i]] : [])].some((text) => text.toLowerCase().includes(state.query)));
  const strong = (i) => visible(i) && (state.cluster === null || own[i] === state.cluster);
  const ink = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const rgb = colours.map((code) => [1, 3, 5].map((at) => (parseInt(code.slice(at, at + 2), 16) / 255) ** 2.2));
  function regroup() {
    clusters = level.clusters; k = clusters.length;
    memberships = held.memberships.map((fine) => {
      const sums = new Array(k).fill(0);
      fine.forEach((value, s) => { sums[level.parents[s]] += value; });
      return sums;
    });
    own = memberships.map((u) => u.indexOf(Math.max(...u)));
    certainty = memberships.map((u) => Math.min(1, Math.max(...u) / 1000));
    blends = memberships.map((u) => {
      const mixed = [0, 1, 2].map((part) =>
        Math.round(255 * Math.min(1, u.reduce((sum, value, c) => sum + (value / 1000) * rgb[c][part], 0)) ** (1 / 2.2)));
      return `rgb(${mixed.join(",")})`;
    });
  }

  // Colours of the objects: blends of their clusters, or the values of a column.
  const value = (text) => { const number = Number(String(text).replaceAll(",", "")); return text === "" || Number.isNaN(number) ? null : number; };
  function shades(texts) {
    const numbers = texts.map(value), known = numbers.filter((x) => x !== null);
    const missing = "#8a94a3";
    if (known.length > texts.length / 2) {
      const order = [...known].sort((a, b) => a - b);
      const low = order[Math.floor(0.02 * order.length)], high = order[Math.ceil(0.98 * order.length) - 1];
      return numbers.map((x) => {
        if (x === null) return missing;
        const t = Math.max(0, Math.min(1, high > low ? (x - low) / (high - low) : 0.5));
        return `hsl(${240 - 210 * t} 75% ${45 + 10 * t}%)`;
      });
    }
    const levels = [...new Set(texts)].sort();
    return texts.map((text) => (text === "–" || text === "" ? missing : `hsl(${(levels.indexOf(text) * 137.5) % 360} 65% 52%)`));
  }

  function describe(i) {
    const order = memberships[i].map((_, c) => c).sort((a, b) => memberships[i][b] - memberships[i][a]);
    const parts = order.slice(0, 4).filter((c) => memberships[i][c] >= 5)
      .map((c) => `${clusters[c]} ${(memberships[i][c] / 1000).toFixed(3)}`);
    const cells = columns.map((title, j) => `${title}: ${rows[i][j]}`);
    return [names[i], ...parts, ...cells];
  }

  function showTip(i, x, y) {
    tip.replaceChildren(...describe(i).map((text, place) => {
      const line = document.createElement(place ? "div" : "b");
      line.textContent = text;
      return line;
    }));
    tip.style.display = "block";
    const wide = tip.offsetWidth, high = tip.offsetHeight;
    tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - wide - 8))}px`;
    tip.style.top = `${Math.max(4, Math.min(y + 14, innerHeight - high - 8))}px`;
  }
  function hideTip() { tip.style.display = "none"; state.hit = null; }

  function canvasFor(figure, ratio) {
    const canvas = document.createElement("canvas");
    canvas.className = "live";
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `${figure.querySelector("h3").textContent}, live: arrow keys go from object to object`);
    figure.querySelector("picture")?.classList.add("still");
    figure.insertBefore(canvas, figure.querySelector("figcaption"));
    return { canvas, size() {
      const wide = canvas.clientWidth || 400, sharp = devicePixelRatio || 1;
      const high = wide * (typeof ratio === "function" ? ratio() : ratio);
      canvas.width = wide * sharp; canvas.height = high * sharp;
      canvas.style.height = `${high}px`;
      const pen = canvas.getContext("2d");
      pen.scale(sharp, sharp);
      return [pen, wide, high];
    } };
  }

  function triangle(pen, at, titles) {
    const corners = [[0, 0], [1, 0], [0.5, Math.sqrt(0.75)]];
    const line = (from, to) => { pen.beginPath(); pen.moveTo(...at(from)); pen.lineTo(...at(to)); pen.stroke(); };
    corners.forEach((corner, c) => {
      const next = corners[(c + 1) % 3];
      line(corner, next);
      pen.setLineDash([2, 3]); line([(corner[0] + next[0]) / 2, (corner[1] + next[1]) / 2], [0.5, Math.sqrt(0.75) / 3]); pen.setLineDash([]);
      const [x, y] = at(corner);
      pen.fillStyle = colours[c]; pen.textAlign = ["left", "right", "center"][c];
      pen.fillText(titles[c], x, c < 2 ? y + 20 : y - 9);
    });
  }

  function fitting(pen, text, room) {
    let kept = text.length;
    while (kept > 1 && pen.measureText(text.slice(0, kept)).width > room) kept -= 1;
    return kept < text.length ? `${text.slice(0, kept - 1)}…` : text;
  }

  function scatter(figure, places, titles) {
    const { canvas, size } = canvasFor(figure, 0.8);
    let points = places;
    const known = [...names.keys()].filter((i) => titles.triangle || (points[i][0] !== null && points[i][1] !== null));
    const range = titles.triangle ? [[-0.04, 1.04], [-0.08, 0.98]] : [0, 1].map((axis) => {
      const values = known.map((i) => points[i][axis]);
      const low = values.reduce((a, b) => Math.min(a, b), Infinity);
      const high = values.reduce((a, b) => Math.max(a, b), -Infinity);
      return [low, high > low ? high : low + 1];
    });
    let place = [];
    function paint() {
      if (titles.triangle) {
        figure.hidden = k !== 3;
        if (k !== 3) return;
        points = memberships.map((u) => [(u[1] + u[2] / 2) / 1000, u[2] * Math.sqrt(0.75) / 1000]);
      }
      const [pen, wide, high] = size();
      const left = 30, foot = 30, edge = 8;
      const at = ([x, y]) => [
        left + (wide - left - edge) * (x - range[0][0]) / (range[0][1] - range[0][0]),
        high - foot - (high - foot - edge) * (y - range[1][0]) / (range[1][1] - range[1][0])];
      place = points.map(() => null);
      for (const i of known) place[i] = at(points[i]);
      pen.fillStyle = pen.strokeStyle = ink("--soft");
      pen.font = "12px system-ui, sans-serif";
      pen.textAlign = "center";
      if (titles.triangle) triangle(pen, at, clusters); else {
        const ends = titles.ticks ? 100 : 10;
        pen.fillText(fitting(pen, titles[0], wide - left - ends), (wide + left) / 2, high - 8);
        pen.save(); pen.translate(14, (high - foot) / 2); pen.rotate(-Math.PI / 2); pen.fillText(fitting(pen, titles[1], high - foot - ends), 0, 0); pen.restore();
        pen.lineWidth = 1; pen.beginPath(); pen.moveTo(left - 4, edge); pen.lineTo(left - 4, high - foot + 4); pen.lineTo(wide - edge, high - foot + 4); pen.stroke();
      }
      if (titles.ticks) {
        const short = (value) => String(Number(value.toPrecision(3)));
        pen.textAlign = "left"; pen.fillText(short(range[0][0]), left, high - foot + 16);
        pen.textAlign = "right"; pen.fillText(short(range[0][1]), wide - edge, high - foot + 16);
        pen.save(); pen.translate(14, high - foot); pen.rotate(-Math.PI / 2); pen.textAlign = "left"; pen.fillText(short(range[1][0]), 0, 0);
        pen.textAlign = "right"; pen.fillText(short(range[1][1]), high - foot - edge, 0); pen.restore();
      }
      const radius = Math.max(1.6, Math.min(4, 90 / Math.sqrt(n)));
      for (const early of [true, false]) for (const i of known) {
        if (strong(i) === early || !visible(i)) continue;
        pen.globalAlpha = early ? 0.07 : 0.35 + 0.6 * certainty[i];
        pen.fillStyle = paints[i];
        pen.beginPath(); pen.arc(...place[i], radius, 0, 7); pen.fill();
      }
      pen.globalAlpha = 1;
      if (state.hit !== null && place[state.hit]) {
        pen.strokeStyle = ink("--ink"); pen.lineWidth = 2;
        pen.beginPath(); pen.arc(...place[state.hit], radius + 4, 0, 7); pen.stroke();
      }
    }
    function nearest(x, y) {
      let best = null, gap = 20 * 20;
      for (const i of known) if (strong(i)) {
        const away = (place[i][0] - x) ** 2 + (place[i][1] - y) ** 2;
        if (away < gap) [best, gap] = [i, away];
      }
      return best;
    }
    listen(canvas, (event) => nearest(event.offsetX, event.offsetY), (i) => place[i], known, paint);
    painters.push(paint);
  }

  function bands(figure) {
    const order = [...names.keys()];
    const { canvas, size } = canvasFor(figure, () => Math.max(0.45, Math.min(1.2, 0.12 * k)));
    let wide = 1;
    function paint() {
      order.sort((a, b) => own[a] - own[b] || certainty[b] - certainty[a]);
      let pen, high;
      [pen, wide, high] = size();
      const tall = high / k, step = wide / n;
      for (let c = 0; c < k; c += 1) {
        pen.fillStyle = colours[c];
        order.forEach((i, at) => {
          pen.globalAlpha = (memberships[i][c] / 1000) * (strong(i) ? 1 : 0.12);
          if (pen.globalAlpha > 0.01) pen.fillRect(at * step, c * tall + 1, step + 0.5, tall - 2);
        });
      }
      pen.globalAlpha = 1;
      if (state.hit !== null) {
        pen.strokeStyle = ink("--ink"); pen.lineWidth = 1;
        pen.strokeRect(order.indexOf(state.hit) * step, 0, Math.max(step, 2), high);
      }
    }
    const at = (event) => order[Math.max(0, Math.min(n - 1, Math.floor((event.offsetX / wide) * n)))];
    listen(canvas, at, (i) => [(order.indexOf(i) / n) * wide, 20], order, paint);
    painters.push(paint);
  }

  function histogram(figure) {
    const { size } = canvasFor(figure, 0.55), bins = 20;
    painters.push(() => {
      const [pen, wide, high] = size();
      const left = 34, foot = 34, low = Math.min(1 / k, 0.9);
      const counts = Array.from({ length: bins }, () => new Array(k).fill(0));
      for (let i = 0; i < n; i += 1) if (strong(i)) {
        counts[Math.max(0, Math.min(bins - 1, Math.floor(bins * (certainty[i] - low) / (1 - low))))][own[i]] += 1;
      }
      const most = Math.max(1, ...counts.map((bin) => bin.reduce((a, b) => a + b)));
      const step = (wide - left - 8) / bins;
      counts.forEach((bin, at) => {
        let floor = high - foot;
        bin.forEach((count, c) => {
          const tall = (high - foot - 10) * count / most;
          pen.fillStyle = colours[c];
          pen.fillRect(left + at * step, floor -= tall, 0.9 * step, tall);
        });
      });
      pen.fillStyle = ink("--soft"); pen.font = "12px system-ui, sans-serif";
      pen.textAlign = "left"; pen.fillText(low.toFixed(2), left, high - foot + 15);
      pen.textAlign = "center"; pen.fillText("largest membership", (wide + left) / 2, high - 6);
      pen.textAlign = "right"; pen.fillText("1", wide - 8, high - foot + 15); pen.fillText(String(most), left - 5, 18); pen.fillText("0", left - 5, high - foot);
    });
  }

  function crossed(figure) {
    figure.querySelector("picture").classList.add("still");
    const table = document.createElement("table"), frame = document.createElement("div");
    table.className = "heat"; frame.className = "live scroll";
    frame.append(table);
    figure.insertBefore(frame, figure.querySelector("figcaption"));
    const kinds = [...new Set(classes.values)].sort();
    painters.push(() => {
      const sums = new Map(kinds.map((kind) => [kind, new Array(k).fill(0)]));
      classes.values.forEach((kind, i) => memberships[i].forEach((value, c) => { sums.get(kind)[c] += value / 1000; }));
      const line = (texts, part, marks = []) => {
        const row = document.createElement("tr");
        texts.forEach((text, at) => {
          const cell = document.createElement(at ? part : "th");
          cell.className = at ? `number high${marks[at - 1] ?? 0}` : "";
          cell.textContent = text;
          row.append(cell);
        });
        return row;
      };
      table.replaceChildren(line([classes.title, ...clusters], "th"), ...kinds.map((kind) => {
        const values = sums.get(kind), total = values.reduce((a, b) => a + b) || 1;
        return line([kind, ...values.map((value) => value.toFixed(1))], "td", values.map((value) => Math.round(4 * value / total)));
      }));
    });
  }

  function listen(canvas, find, where, order, paint) {
    canvas.addEventListener("pointermove", (event) => {
      const i = find(event);
      state.hit = i;
      if (i === null) hideTip(); else showTip(i, event.clientX, event.clientY);
      paint();
    });
    canvas.addEventListener("pointerleave", () => { hideTip(); paint(); });
    canvas.addEventListener("click", (event) => {
      const i = find(event);
      choose(i === null || own[i] === state.cluster ? null : own[i]);
    });
    canvas.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === "Escape") { hideTip(); choose(null); return; }
      if (event.key === "Enter" && state.hit !== null) { choose(own[state.hit]); return; }
      if (!step) return;
      event.preventDefault();
      const some = order.filter(strong);
      if (!some.length) return;
      const now = some.indexOf(state.hit);
      state.hit = some[(now + step + some.length) % some.length];
      const box = canvas.getBoundingClientRect(), [x, y] = where(state.hit);
      showTip(state.hit, box.left + x, box.top + y);
      paint();
    });
    canvas.addEventListener("blur", () => { hideTip(); paint(); });
  }

  function choose(cluster) {
    state.cluster = cluster;
    document.querySelectorAll("[data-cluster]").forEach((part) => {
      const chosen = Number(part.dataset.cluster) === cluster;
      part.classList.toggle("chosen", chosen);
      part.classList.toggle("faded", cluster !== null && !chosen);
      if (part.matches("button")) part.setAttribute("aria-pressed", String(chosen));
    });
    repaint();
  }

  const count = document.getElementById("count");
  function repaint() {
    painters.forEach((paint) => paint());
    const some = [...names.keys()].filter(strong);
    count.textContent = `${some.length.toLocaleString("en")} of ${n.toLocaleString("en")} objects shown`;
    list(some);
  }

  const body = document.querySelector("#objects tbody");
  const keys = [(i) => names[i], (i) => own[i], (i) => certainty[i], ...columns.map((_, j) => (i) => rows[i][j])];
  let sorted = { key: 2, down: false };
  function compare(a, b) {
    const x = value(a), y = value(b);
    return x !== null && y !== null ? x - y : String(a).localeCompare(String(b), "en", { numeric: true });
  }
  function list(some) {
    const key = keys[sorted.key];
    const first = some.sort((a, b) => (sorted.down ? -1 : 1) * compare(key(a), key(b))).slice(0, 50);
    body.replaceChildren(...first.map((i) => {
      const row = document.createElement("tr");
      [names[i], clusters[own[i]], certainty[i].toFixed(3), ...rows[i]].forEach((text, at) => {
        const cell = document.createElement("td"), held = document.createElement("bdi");
        cell.className = ["object", "cluster"][at] ?? "cell";
        held.textContent = text;
        cell.append(held);
        row.append(cell);
      });
      row.addEventListener("pointerenter", () => { state.hit = i; painters.forEach((paint) => paint()); });
      row.addEventListener("pointerleave", () => { state.hit = null; painters.forEach((paint) => paint()); });
      return row;
    }));
  }
  document.querySelectorAll("#objects th").forEach((head, key) => sortable(head, () => {
    sorted = { key, down: sorted.key === key && !sorted.down };
    repaint();
  }));
  function sortable(head, act) {
    const button = document.createElement("button");
    button.textContent = head.textContent;
    button.title = "sort";
    button.addEventListener("click", act);
    head.replaceChildren(button);
  }
  document.querySelectorAll("table.sorts").forEach((table) => {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, at) => {
      let down = false;
      sortable(head, () => {
        const lines = [...table.tBodies[0].rows];
        lines.sort((a, b) => (down ? -1 : 1) * compare(a.cells[at].textContent.trim(), b.cells[at].textContent.trim()));
        down = !down;
        table.tBodies[0].append(...lines);
      });
    });
  });

  for (const figure of document.querySelectorAll("figure[data-live]")) {
    const kind = figure.dataset.live, plain = { bands, certainty: histogram, classes: crossed }[kind];
    if (plain) plain(figure); else {
      const titles = kind === "simplex" ? [] : [...planes[kind].names];
      titles.ticks = kind === "telling";
      titles.triangle = kind === "simplex";
      scatter(figure, kind === "simplex" ? [] : planes[kind].points, titles);
    }
  }
  document.querySelectorAll("button[data-cluster]").forEach((button) => button.addEventListener("click", () => {
    const cluster = Number(button.dataset.cluster);
    choose(cluster === state.cluster ? null : cluster);
  }));
  const slider = document.getElementById("certainty"), said = document.getElementById("limit");
  slider.addEventListener("input", () => {
    state.limit = Number(slider.value);
    said.textContent = state.limit.toFixed(2);
    repaint();
  });
  document.getElementById("search").addEventListener("input", (event) => {
    state.query = event.target.value.trim().toLowerCase();
    repaint();
  });
  const sources = columns.map((title, j) => [title, () => rows.map((row) => row[j])]);
  if (classes) sources.unshift([classes.title, () => classes.values]);
  const colour = document.getElementById("colour");
  sources.forEach(([title], at) => colour.add(new Option(title, String(at))));
  const blended = [...document.querySelectorAll(".blended")], usual = blended[0]?.textContent;
  function tint() {
    const own = colour.value === "cluster", [title, texts] = own ? [] : sources[Number(colour.value)];
    paints = own ? blends : shades(texts());
    const how = !own && texts().filter((text) => value(text) !== null).length > n / 2
      ? "blue is low, orange is high" : "one for each value";
    blended.forEach((part) => { part.textContent = own ? usual : `The colour shows ${title}: ${how}; the fainter, the less certain.`; });
  }
  colour.addEventListener("change", () => { tint(); repaint(); });

  function pair(card) {
    const [one, other] = [".one", ".other"].map((name) => card.querySelector(name));
    // A cluster is not compared with itself.
    for (const [list, taken] of [[one, other], [other, one]]) {
      [...list.options].forEach((each) => { each.disabled = each.value === taken.value; });
    }
    const [a, b] = [Number(one.value), Number(other.value)];
    const angle = (share) => 2 * Math.asin(Math.sqrt(Math.max(0, Math.min(1, share))));
    const apart = (each) => {
      const gap = Math.abs(each.means[a] - each.means[b]);
      if (each.share) return Math.abs(angle(each.means[a]) - angle(each.means[b]));
      const within = Math.sqrt((each.spreads[a] ** 2 + each.spreads[b] ** 2) / 2);
      return gap === 0 ? 0 : Math.min(10, gap / Math.max(within, 0.1 * gap));
    };
    const best = level.contrasts.map((each) => [apart(each), each]).sort((x, y) => y[0] - x[0]).slice(0, 8);
    card.querySelector("tbody").replaceChildren(...best.map(([size, each]) => {
      const row = document.createElement("tr");
      [each.name, each.shown[a], each.shown[b], size.toFixed(2)].forEach((text, at) => {
        const cell = document.createElement("td");
        cell.className = at ? "number" : "cell";
        cell.textContent = text;
        row.append(cell);
      });
      return row;
    }));
  }
  document.querySelectorAll(".pairs").forEach((card) => card.addEventListener("change", () => pair(card)));

  const steps = document.getElementById("level");
  function turn(at) {
    level = levels[at];
    regroup();
    document.querySelectorAll("[data-level]").forEach((part) => { part.hidden = Number(part.dataset.level) !== k; });
    document.querySelector(".verdict .other").hidden = level.own;
    document.querySelectorAll("[data-to]").forEach((button) => button.setAttribute("aria-pressed", String(Number(button.dataset.to) === at)));
    if (steps) {
      steps.value = at;
      document.getElementById("level-number").textContent = `${k} clusters${level.own ? ", the answer" : ""}`;
    }
    document.querySelectorAll(`[data-level="${k}"] .pairs`).forEach(pair);
    tint();
    choose(null);
  }
  if (steps) steps.addEventListener("input", () => turn(Number(steps.value)));
  document.querySelectorAll("[data-to]").forEach((button) => button.addEventListener("click", () => turn(Number(button.dataset.to))));
  document.documentElement.classList.add("scripted");
  addEventListener("resize", () => painters.forEach((paint) => paint()));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => painters.forEach((paint) => paint()));
  turn(levels.findIndex((each) => each.own));
})();
