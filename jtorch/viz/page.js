"use strict";
// Views of documents (docs/document.md). Whatever a program says reaches the page as text, never as markup.

const main = document.querySelector("main");
const make = (tag, facts = {}, ...parts) => {
  const made = tag === "svg" || tag === "rect" || tag === "title" && facts.svg
    ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(facts)) if (name !== "svg") made.setAttribute(name, value);
  made.append(...parts);
  return made;
};
const byId = entries => new Map(entries.map(e => [e.id, e]));
const push = (map, key, value) => key && (map.get(key) || map.set(key, new Set()).get(key)).add(value);
const size = n => n < 1024 ? `${n} B` : n < 1048576 ? `${(n / 1024).toFixed(1)} KB` : `${(n / 1048576).toFixed(1)} MB`;

class View {
  constructor(doc, number) {
    this.doc = doc; this.program = doc.programs[number];
    this.lines = byId(doc.lines); this.nodes = byId(doc.nodes); this.values = byId(doc.values);
    this.equations = byId(doc.equations); this.shown = new Map(); this.folds = []; this.open = new Set();
    this.link();
  }

  // Kin: what shares an equation. `all` has, for each equation, the ids of everything that it belongs to.
  link() {
    this.all = new Map(); this.of = new Map();
    const join = (eqn, id) => { if (id && this.all.has(eqn)) { this.all.get(eqn).add(id); push(this.of, id, eqn); } };
    for (const e of this.doc.equations) this.all.set(e.id, new Set([e.id]));
    for (const n of this.doc.nodes) for (const e of [...n.forward, ...n.backward]) join(e, n.id);
    for (const e of this.doc.equations) {
      join(e.id, e.id); join(e.id, e.line); join(e.id, e.node);
      for (const before of e.from) {
        join(e.id, before); join(before, e.id); join(e.id, this.equations.get(before).node);
      }
      for (const v of e.outputs) join(e.id, v);
    }
    for (const s of this.program.steps) for (const e of s.equations) {
      for (const id of [s.id, s.group, s.kernel]) join(e, id);
      for (const before of this.equations.get(e).from) for (const id of [s.id, s.kernel]) join(before, id);
    }
  }

  kin(id) {
    const found = new Set([id]);
    for (const e of this.of.get(id) || []) for (const other of this.all.get(e)) found.add(other);
    return found;
  }

  light(id) {
    for (const e of main.querySelectorAll(".lit")) e.classList.remove("lit");
    if (!id) return;
    const kin = this.kin(id);
    for (const k of kin) for (const e of this.shown.get(k) || []) e.classList.add("lit");
    for (const [summary, ids] of this.folds)
      if (!summary.parentNode.open && ids.some(k => kin.has(k))) summary.classList.add("lit");
  }

  row(id, ...parts) {
    const made = make("li", { tabindex: 0, "data-id": id }, ...parts);
    push(this.shown, id, made);
    return made;
  }

  // Rows under their modules: neighbours with one path share a fold, whose rows are made when it opens.
  folded(rows, path, depth, name, close) {
    const list = make("ul"); const parts = [];
    for (let k = 0; k < rows.length;) {
      const key = path(rows[k])[depth];
      if (key === undefined) { list.append(rows[k++].make()); continue; }
      let end = k; while (end < rows.length && path(rows[end])[depth] === key) end++;
      const inside = rows.slice(k, end); const title = `${name}/${key}/${k}`;
      const summary = make("summary", {}, key, make("span", { class: "type" }, String(inside.length)));
      const fold = make("details", { "data-fold": key }, summary);
      const fill = () => { if (fold.children.length === 1) fold.append(this.folded(inside, path, depth + 1, title, close)); };
      const mind = () => { fill(); fold.open ? this.open.add(title) : this.open.delete(title); };
      fold.addEventListener("toggle", mind);
      if (!close || this.open.has(title)) { fold.open = true; this.open.add(title); fill(); }
      this.folds.push([summary, inside.map(r => r.id)]);
      list.append(fold); k = end;
    }
    return list;
  }

  source() {
    const list = make("ul"); let before = "";
    const used = new Set([...this.doc.equations.map(e => e.line), ...this.doc.nodes.map(n => n.line)]);
    const lines = this.doc.lines.filter(l => used.has(l.id));
    lines.sort((a, b) => a.file < b.file ? -1 : a.file > b.file ? 1 : a.line - b.line);
    for (const l of lines) {
      if (l.file !== before) list.append(make("li", { class: "file" }, l.file.split(/[\\/]/).pop()));
      before = l.file;
      list.append(this.row(l.id, make("span", { class: "num" }, String(l.line)), l.text || `in ${l.function}`));
    }
    return list;
  }

  tape() {
    const rows = this.doc.nodes.map(n => ({ id: n.id, path: n.modules, make: () => this.row(n.id, n.name) }));
    if (!rows.length) return make("p", { class: "head" }, "No op of it needs a gradient.");
    return this.folded(rows, r => r.path, 0, "tape", rows.length > 60);
  }

  nodePath(e) {
    const node = this.nodes.get(e.node) || this.nodes.get((e.from.map(f => this.equations.get(f).node))[0]);
    if (!node) return null;
    const last = node.modules.length - 1;
    return node.modules.map((m, k) => k === last && this.isBackward(e, node) ? `${m} (backward)` : m);
  }

  // The modules of each equation. One that belongs to no node is where its neighbours are together.
  paths(ids) {
    const known = ids.map(id => this.nodePath(this.equations.get(id))); const after = [];
    for (let k = ids.length - 1, next = null; k >= 0; k--) { after[k] = next = known[k] || next; }
    let before = null;
    return ids.map((id, k) => {
      if (known[k]) return before = known[k];
      const both = before && after[k] ? before : []; let n = 0;
      while (n < both.length && both[n] === after[k][n]) n++;
      const line = this.lines.get(this.equations.get(id).line);
      return n || !line || (before && after[k]) ? both.slice(0, n) : [`${line.file.split(/[\\/]/).pop()}:${line.line}`];
    });
  }
  isBackward(e, node) { return [e.id, ...e.from].some(id => node.backward.includes(id)); }

  state(k) {
    const { rewrites = [] } = this.program;
    this.kept = this.kept || new Map([[0, this.doc.recorded]]);
    let at = k; while (!this.kept.has(at)) at--;
    let now = this.kept.get(at);
    for (; at < k; at++) {
      const w = rewrites[at]; const gone = new Set(w.gone); const uses = new Map(w.uses);
      const place = w.gone.length ? now.indexOf(w.gone[0]) : now.length;
      const next = now.slice(0, place).concat(w.come);
      for (let j = place; j < now.length; j++) if (!gone.has(now[j])) next.push(now[j]);
      now = uses.size ? next.map(e => uses.get(e) || e) : next;
      if ((at + 1) % 50 === 0) this.kept.set(at + 1, now);
    }
    return now;
  }

  graph() {
    const { rewrites } = this.program; const head = make("div", { class: "head" }, make("h2", {}, "Graph"));
    const body = make("div", { class: "body" }); const rule = make("div", { class: "rule", role: "status" });
    const show = (ids, marked) => {
      for (const e of this.doc.equations) this.shown.delete(e.id);
      this.folds = this.folds.filter(([s]) => !body.contains(s));
      const paths = this.paths(ids);
      const rows = ids.map((id, k) => {
        const e = this.equations.get(id);
        return { id, path: paths[k], make: () => {
          const made = this.row(id, e.text, make("span", { class: "type" }, e.outputs.map(v => this.values.get(v).type).join(", ")));
          if (marked.has(id)) made.classList.add("new");
          return made;
        } };
      });
      body.replaceChildren(this.folded(rows, r => r.path, 0, "graph", rows.length > 250));
    };
    if (!rewrites) {
      show(this.program.equations, new Set()); head.firstChild.append(" after all passes");
    } else {
      const range = make("input", { type: "range", min: 0, max: rewrites.length, "aria-label": "rewrites done" });
      const go = k => {
        range.value = k; const w = rewrites[k - 1];
        show(k === rewrites.length ? this.program.equations : this.state(k), new Set(w ? [...w.come, ...w.uses.map(u => u[1])] : []));
        rule.replaceChildren(w ? `${k} of ${rewrites.length}, ${w.pass}: ${w.rule}` : `As recorded; ${rewrites.length} rewrites follow.`);
        for (const e of w ? w.gone : []) rule.append(make("div", { class: "gone mono" }, this.equations.get(e).text));
        const fresh = body.querySelector(".new"); if (fresh) body.scrollTop += fresh.getBoundingClientRect().top - body.getBoundingClientRect().top - 60;
        for (const [b, end] of [[back, 0], [first, 0], [next, rewrites.length], [last, rewrites.length]]) b.disabled = k === end;
      };
      const button = (text, to, label) => {
        const b = make("button", { type: "button", "aria-label": label, title: label }, text);
        b.addEventListener("click", () => go(Math.max(0, Math.min(rewrites.length, to(Number(range.value))))));
        return b;
      };
      const first = button("recorded", () => 0, "as recorded"), back = button("\u2039", k => k - 1, "one rewrite back");
      const next = button("\u203a", k => k + 1, "one rewrite on"), last = button("optimised", () => rewrites.length, "after all rewrites");
      range.addEventListener("input", () => go(Number(range.value)));
      head.append(make("div", { class: "bar" }, first, back, range, next, last), rule);
      go(rewrites.length);
    }
    return make("section", { id: "graph" }, head, body);
  }

  kernels() {
    const kernels = byId(this.program.kernels); const list = make("ul"); const told = new Set();
    for (const [k, s] of this.program.steps.entries()) {
      list.append(this.row(s.id, make("span", { class: "num" }, String(k)), s.name, make("span", { class: "type" }, s.kind)));
      const kernel = kernels.get(s.kernel);
      if (!kernel || told.has(kernel.id)) continue;
      told.add(kernel.id);
      const summary = make("summary", { "data-id": kernel.id }, make("span", { class: "num" }), kernel.name);
      push(this.shown, kernel.id, summary);
      list.append(make("details", { class: "kernel" }, summary, make("pre", {}, kernel.source)));
    }
    return list;
  }

  memory() {
    const total = this.program.arena_bytes || 1; const n = Math.max(1, this.program.steps.length);
    const picture = make("svg", { viewBox: `0 0 ${n} ${total}`, preserveAspectRatio: "none", role: "img", "aria-label": "arena: steps to the right, bytes downwards" });
    const many = this.program.places.length > 300;
    for (const p of this.program.places) {
      if (p.born === undefined) continue;
      const v = this.values.get(p.value);
      const r = make("rect", { x: p.born, y: p.at, width: p.dies - p.born + 1, height: Math.max(v.bytes, total / 400), "data-id": p.value });
      if (many) r.style.stroke = "none";
      r.append(make("title", { svg: 1 }, `${v.name} ${v.type}, ${size(v.bytes)} at ${p.at}, steps ${p.born} to ${p.dies}`));
      push(this.shown, p.value, r); picture.append(r);
    }
    return [picture, make("div", { class: "axis" }, make("span", {}, "step 0"), make("span", {}, `${size(this.program.arena_bytes)} of scratch memory, downwards`), make("span", {}, `step ${n - 1}`))];
  }

  times() {
    const measured = this.doc.measured;
    if (!measured || !measured.times.length) return make("p", { class: "head" }, "Not measured: call .profile() before this page is made.");
    const steps = byId(this.program.steps); const list = make("ul"); const most = Math.max(...measured.times.map(t => t.us));
    for (const t of measured.times) {
      const s = steps.get(t.steps[0]); if (!s) continue;
      const name = t.steps.length > 1 ? `${s.name} and ${t.steps.length - 1} more` : s.name;
      const made = this.row(s.id, make("span", {}, name), make("span", {}, make("i", { style: `width:${100 * t.us / most}%` })), make("b", {}, `${t.us.toFixed(2)} us`));
      made.classList.add("time"); list.append(made);
    }
    return list;
  }

  facts() {
    const table = rows => make("div", { class: "scroll" }, make("table", {}, ...rows.map(r => make("tr", {}, ...r.map(c => make("td", {}, String(c)))))));
    const fold = (title, rows) => make("details", { class: "fold" }, make("summary", {}, title), table(rows));
    const at = id => { const l = this.lines.get(id); return l ? `${l.file.split(/[\\/]/).pop()}:${l.line}` : ""; };
    const d = this.doc; const ms = s => `${(s * 1000).toFixed(2)} ms`;
    const found = [fold(`${d.guards.length} guards`, d.guards.map(g => [g.kind, at(g.line), g.expression])),
      fold(`recorded and compiled in ${ms(d.times.seconds)}`, Object.entries(d.times.stages).map(([k, s]) => [k, ms(s)])),
      fold(`${d.recordings.length} recordings kept, ${d.retraces.length} retraces`, [
        ...d.recordings.map(r => [`plan ${r.number}`, ms(r.seconds), r.arguments]),
        ...d.retraces.map(r => [r.outcome, `${r.milliseconds.toFixed(1)} ms`, `${at(r.line)} ${r.causes.map(c => c.before || c.after ? `${c.what}: ${c.before} -> ${c.after}` : c.what).join("; ")}`])])];
    if (this.program.apart) found.push(fold(`${this.program.apart.length} neighbours that are not fused`, this.program.apart.map(a => [this.values.get(a.value).name, this.stepOf(a.producer) + " -> " + this.stepOf(a.consumer), a.reason])));
    return make("div", { class: "wide" }, ...found);
  }
  stepOf(group) { const s = this.program.steps.find(step => step.group === group); return s ? s.name : "?"; }

  panel(name, ...parts) {
    return make("section", { id: name.toLowerCase() }, make("div", { class: "head" }, make("h2", {}, name)), make("div", { class: "body" }, ...parts));
  }

  draw() {
    const columns = make("div", { class: "columns" }, this.panel("Source", this.source()), this.panel("Tape", this.tape()), this.graph(), this.panel("Kernels", this.kernels()));
    const memory = this.panel("Memory", ...this.memory()), times = this.panel("Time", this.times());
    memory.classList.add("wide"); times.classList.add("wide");
    main.replaceChildren(columns, memory, times, this.facts());
    const idOf = e => { const at = e.target.closest && e.target.closest("[data-id]"); return at && at.dataset.id; };
    main.onpointerover = main.onfocusin = e => { const id = idOf(e); if (id) this.light(id); };
    main.onpointerleave = () => this.light(null);
    main.addEventListener("focusin", e => { const id = idOf(e); if (id) this.light(id); });
    main.onclick = e => { const id = idOf(e); if (id && e.target.closest("li, rect")) this.bring(id, e.target); };
    main.onkeydown = e => {
      const row = e.target.closest("li"); const way = { ArrowDown: 1, ArrowUp: -1 }[e.key];
      if (!row) return;
      if (e.key === "Enter") this.bring(row.dataset.id, row);
      if (!way) return;
      const rows = [...row.closest("section").querySelectorAll("li[tabindex], summary")].filter(r => r.offsetParent);
      const to = rows[rows.indexOf(row) + way]; if (to) { e.preventDefault(); to.focus(); }
    };
  }

  // A click brings the first kin of each other panel into sight.
  bring(id, from) {
    const own = from.closest("section"); this.light(id);
    for (const body of main.querySelectorAll(".columns .body")) {
      const first = body.querySelector(".lit");
      if (first && body.parentNode !== own) body.scrollTop += first.getBoundingClientRect().top - body.getBoundingClientRect().top - 40;
    }
  }
}

async function start() {
  const bytes = Uint8Array.from(atob(document.getElementById("data").textContent.trim()), c => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const documents = JSON.parse(await new Response(stream).text());
  const choices = documents.flatMap((d, k) => d.programs.map((p, n) => ({ k, n, name: p.role === "call" ? d.function : `${d.function}, backward` })));
  const pick = document.getElementById("pick"), told = document.getElementById("told"), title = document.querySelector("h1");
  const show = c => {
    const d = documents[c.k], p = d.programs[c.n]; title.textContent = c.name;
    told.textContent = `${p.equations.length} equations in ${p.steps.length} steps, ${p.kernels.length} different kernels, ${size(p.arena_bytes)} of scratch memory. ${d.plan}`;
    new View(d, c.n).draw();
  };
  choices.forEach((c, k) => pick.append(make("option", { value: k }, c.name)));
  pick.hidden = choices.length < 2; pick.addEventListener("change", () => show(choices[pick.value]));
  show(choices[0]); document.body.dataset.ready = "yes";
}
start();
