/* The attention explorer: finds every object that is not alive yet and makes it so. No library, no request. */
(() => {
  "use strict";

  const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const TINY = 1001, MASKED = 1002; // codes, as in explorer_still.py
  const WORDS = {
    en: {
      map: "Attention explorer", steps: "Scaled dot-product attention, step by step",
      heads: "Layers (rows) and heads (columns)", headsOne: "Heads", layerShort: "L",
      head: (layer, head, name) => `Layer ${layer}, head ${head}` + (name ? ` (${name})` : ""),
      side: "Colours show", looks: "where it looks", seen: "who looks at it",
      tokens: "Tokens", queries: "Queries", keys: "Keys", query: "query", key: "key",
      looksAt: (t) => `query “${t}” looks at`, seenBy: (t) => `key “${t}” is looked at by`,
      pick: "Tap a token, or move with the arrow keys.", continues: "continues a word",
      hide: "Hide weights below", nothing: "nothing hidden", masked: "masked", hidden: "below the threshold",
      mapField: "Heat map: arrow keys move between cells", legend: "Colours of the weights",
      table: "The weights as a table", corner: "query \\ key", leak: "masked, and yet with a weight",
      tableHint: "Rows are queries, columns are keys.",
      dk: "Components used ", scale: (root) => `Scaling (÷ ${root})`, mask: "Mask",
      kinds: { none: "none", padding: "padding", causal: "causal", both: "both" },
      stepsOf: (t) => `Query “${t}”, from score to weight`, score: "1 score", scaled: "2 scale",
      add: "3 mask", weight: "4 softmax", minus: "minus infinity",
      mix: (n, of) => "5 mix: weight times value" + (n < of ? ` (first ${n} of ${of} components)` : ""),
      sum: "sum = output", total: "sum", one: (t) => `Score of key “${t}”: `,
      spread: (raw, scaled) => `Standard deviation of all scores: ${raw} before step 2, ${scaled} after it.`,
      flat: (w, e, m) => `This query: largest weight ${w}, entropy ${e} of at most ${m}.`,
      empty: "This query may look at nothing: all weights are 0.",
      all: "Weights of all queries",
    },
    ko: {
      map: "어텐션 탐색기", steps: "단계별로 보는 스케일드 닷-프로덕트 어텐션",
      heads: "층(행)과 헤드(열)", headsOne: "헤드", layerShort: "층 ",
      head: (layer, head, name) => `층 ${layer}, 헤드 ${head}` + (name ? ` (${name})` : ""),
      side: "색이 나타내는 것", looks: "이 토큰이 보는 토큰", seen: "이 토큰을 보는 토큰",
      tokens: "토큰", queries: "쿼리", keys: "키", query: "쿼리", key: "키",
      looksAt: (t) => `‘${t}’ 쿼리가 보는 키`, seenBy: (t) => `‘${t}’ 키를 보는 쿼리`,
      pick: "토큰을 누르거나 화살표 키로 옮겨 보세요.", continues: "앞말에 이어짐",
      hide: "이 값 미만 숨기기", nothing: "모두 표시", masked: "마스크", hidden: "숨김",
      mapField: "히트맵: 화살표 키로 칸을 옮깁니다", legend: "가중치의 색",
      table: "가중치를 표로 보기", corner: "쿼리 \\ 키", leak: "마스크로 막았는데도 가중치가 있음",
      tableHint: "행은 쿼리, 열은 키입니다.",
      dk: "사용하는 성분 수", scale: (root) => `스케일링(÷ ${root})`, mask: "마스크",
      kinds: { none: "없음", padding: "패딩", causal: "인과", both: "둘 다" },
      stepsOf: (t) => `‘${t}’ 쿼리: 점수에서 가중치까지`, score: "1 점수", scaled: "2 스케일링",
      add: "3 마스크", weight: "4 소프트맥스", minus: "마이너스 무한대",
      mix: (n, of) => "5 섞기: 가중치 × 값" + (n < of ? ` (성분 ${of}개 가운데 앞의 ${n}개)` : ""),
      sum: "합 = 출력", total: "합", one: (t) => `‘${t}’ 키의 점수: `,
      spread: (raw, scaled) => `모든 점수의 표준편차는 2단계 전에 ${raw}, 후에 ${scaled}입니다.`,
      flat: (w, e, m) => `이 쿼리에서 가장 큰 가중치는 ${w}, 엔트로피는 ${e}입니다(최대 ${m}).`,
      empty: "이 쿼리가 볼 수 있는 키가 없어서 가중치가 모두 0입니다.",
      all: "모든 쿼리의 가중치",
    },
  };

  /* ---- small tools ---- */

  /** An element; `props` are attributes, functions become listeners, strings become text and never HTML. */
  function el(name, props = {}, ...children) {
    const [tag, ...classes] = name.split(".");
    const node = document.createElement(tag || "div");
    if (classes.length) node.className = classes.map((c) => `tlx-${c}`).join(" ");
    for (const [key, value] of Object.entries(props)) {
      if (typeof value === "function") node.addEventListener(key, value);
      else if (value !== undefined && value !== false) node.setAttribute(key, value === true ? "" : value);
    }
    node.append(...children.filter((c) => c !== null && c !== undefined));
    return node;
  }

  function svg(name, props = {}, ...children) {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(props)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  }

  const minus = (text) => text.replace("-", "−");
  const fixed = (x, digits) => minus(Object.is(+x.toFixed(digits), -0) ? (0).toFixed(digits) : x.toFixed(digits));
  const full = ([mark, text]) => mark + text;
  const name = ([, text]) => text;
  const valueOf = (code) => (code % MASKED === TINY ? 0.0001 : (code % MASKED) / 1000);
  const isMasked = (code) => code >= MASKED;

  function written(code) {
    const value = code % MASKED;
    return value === TINY ? "<0.001" : (value / 1000).toFixed(3);
  }

  function stepOf(value, edges) {
    let step = 0;
    while (step < edges.length && value >= edges[step]) step += 1;
    return step;
  }

  /** What a cell looks like: 0...6, "m" masked, "b" below the threshold. */
  function looksLike(code, edges, threshold) {
    if (isMasked(code) && code % MASKED === 0) return "m";
    const step = stepOf(valueOf(code), edges);
    return step < threshold ? "b" : step;
  }

  function unpack(text) {
    const of = new Uint8Array(128);
    for (let i = 0; i < 64; i += 1) of[ALPHABET.charCodeAt(i)] = i;
    const codes = new Uint16Array(text.length / 2);
    for (let i = 0; i < codes.length; i += 1) codes[i] = of[text.charCodeAt(2 * i)] * 64 + of[text.charCodeAt(2 * i + 1)];
    return codes;
  }

  /** The text of a token, its mark in a softer tone. */
  function drawn([mark, text]) {
    return mark ? [el("span.mark", { "aria-hidden": "true" }, mark), text] : [text];
  }

  /** Keys that move: [rows, columns], or null. */
  function move(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return null;
    return { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key] ?? null;
  }

  /** About how wide a text is at 13 px, in the widest font that a system may have: too much room rather than too little. */
  const roughly = (text) => [...text].reduce((sum, c) => sum + (c > "\u10ff" || /[mwMW@%<>]/.test(c) ? 13 : 8.2), 0);
  const clamp = (x, size) => Math.max(0, Math.min(size - 1, x));

  /* ---- parts that both views use ---- */

  /** A row of tokens of which one is chosen: a listbox that arrow keys, Home and End walk through. */
  function strip(tokens, label, words, { onPick, onHover, onLeave }) {
    const chips = tokens.map((token, i) =>
      el("div.chip", {
        role: "option", "aria-selected": "false", tabindex: -1, title: full(token),
        "aria-label": name(token) + (token[0] === "##" ? `, ${words.continues}` : ""),
        click: () => onPick(i),
        pointerenter: (event) => event.pointerType === "mouse" && onHover && onHover(i),
      }, ...drawn(token)));
    const node = el("div.strip", {
      role: "listbox", "aria-label": label, "aria-orientation": "horizontal",
      pointerleave: (event) => event.pointerType === "mouse" && onLeave && onLeave(),
      keydown: (event) => {
        const by = move(event);
        const now = chips.indexOf(event.target.closest("[role=option]"));
        let next = by ? now + by[0] + by[1] : { Home: 0, End: chips.length - 1, Enter: now, " ": now }[event.key];
        if (next === undefined) return;
        event.preventDefault();
        next = clamp(next, chips.length);
        onPick(next);
        chips[next].focus();
      },
    }, ...chips);
    return {
      node,
      /** Choose one; `paint(i)` gives each chip's looks, or null for a list without colours. */
      show(chosen, other, paint) {
        chips.forEach((chip, i) => {
          const code = paint ? paint(i) : null;
          if (code === null) delete chip.dataset.step;
          else chip.dataset.step = code.look;
          chip.classList.toggle("tlx-leak", code !== null && code.leak);
          chip.classList.toggle("tlx-other", i === other);
          chip.setAttribute("aria-selected", String(i === chosen));
          chip.tabIndex = i === chosen ? 0 : -1;
        });
      },
    };
  }

  /** The heat map of one head: SVG, one path per colour, with the tokens around it where they fit. */
  function heatMap(queries, keys, edges, words, { onPick, onHover, onLeave }) {
    const T = queries.length, S = keys.length;
    const cells = svg("g"), numbers = svg("g");
    const ringOut = svg("path", { class: "tlx-ring-2" }), ring = svg("path", { class: "tlx-ring" });
    let lines = "";
    for (let x = 1; x < S; x += 1) lines += `M${x} 0V${T}`;
    for (let y = 1; y < T; y += 1) lines += `M0 ${y}H${S}`;
    const grid = svg("path", { class: "tlx-grid", d: lines });
    const picture = svg("svg", { viewBox: `0 0 ${S} ${T}`, preserveAspectRatio: "none", "aria-hidden": "true" }, cells, grid, numbers, ringOut, ring);
    const at = (event) => {
      const box = picture.getBoundingClientRect();
      return [clamp(Math.floor(((event.clientY - box.top) / box.height) * T), T), clamp(Math.floor(((event.clientX - box.left) / box.width) * S), S)];
    };
    let now = [0, 0];
    const field = el("div.field", {
      tabindex: 0, role: "application", "aria-label": words.mapField,
      click: (event) => { if (event.detail !== 0 || event.clientX) onPick(...at(event)); },
      pointermove: (event) => event.pointerType === "mouse" && onHover(...at(event)),
      pointerleave: (event) => event.pointerType === "mouse" && onLeave(),
      keydown: (event) => {
        const by = move(event) ?? { Home: [0, -S], End: [0, S], PageUp: [-T, 0], PageDown: [T, 0] }[event.key];
        if (!by) return;
        event.preventDefault();
        onPick(clamp(now[0] + by[0], T), clamp(now[1] + by[1], S));
      },
    }, picture);
    const rows = el("div.rows", { "aria-hidden": "true" }, ...queries.map((t) => el("span", { title: full(t) }, full(t))));
    const cols = el("div.cols", { "aria-hidden": "true" }, ...keys.map((t) => el("span", { title: full(t) }, full(t))));
    const plan = el("div.plan", {},
      el("span.axis.axis-col", { "aria-hidden": "true" }, `${words.key} →`), cols,
      el("span.axis.axis-row", { "aria-hidden": "true" }, `← ${words.query}`), rows, field);
    let cell = 0;
    let shown = null; // codes and threshold of the last drawing

    /** Sizes from the room there is; nothing else on the page moves, for it is done before the first picture. */
    function fit(width) {
      const room = width - 22;
      const wide = Math.max(...queries.map((t) => roughly(full(t)))) + 8;
      const left = Math.min(wide, 90, room * 0.3);
      const tight = Math.min((room - left) / S, 36, Math.max(640 / T, 8));
      const named = tight >= 15;
      cell = named ? tight : Math.min(room / S, 36, Math.max(640 / T, 8));
      plan.style.gridTemplateColumns = `20px ${named ? left : 0}px ${cell * S}px`;
      const tall = Math.min(84, Math.max(...keys.map((t) => roughly(full(t)))) + 8);
      plan.style.gridTemplateRows = `20px ${named ? tall : 0}px ${cell * T}px`;
      rows.hidden = cols.hidden = !named;
      rows.style.display = cols.style.display = named ? "" : "none";
      rows.style.gridTemplateRows = `repeat(${T}, ${cell}px)`;
      cols.style.gridTemplateColumns = `repeat(${S}, ${cell}px)`;
      cols.style.height = `${tall}px`;
      grid.style.display = cell >= 9 ? "" : "none";
      picture.setAttribute("width", cell * S);
      picture.setAttribute("height", cell * T);
      if (shown) draw(...shown);
    }

    function draw(codes, threshold) {
      shown = [codes, threshold];
      const paths = {};
      for (let y = 0; y < T; y += 1) {
        for (let x = 0; x < S;) {
          const look = looksLike(codes[y * S + x], edges, threshold);
          let end = x + 1;
          while (end < S && looksLike(codes[y * S + end], edges, threshold) === look) end += 1;
          paths[look] = (paths[look] ?? "") + `M${x} ${y}h${end - x}v1h${x - end}z`;
          x = end;
        }
      }
      let hatch = "";
      for (let i = 0; i < T * S; i += 1) {
        const x = i % S, y = (i - x) / S;
        if (!isMasked(codes[i])) continue;
        hatch += `M${x} ${y + 1}l1 -1`;
        if (cell >= 16) hatch += `M${x} ${y + 0.5}l.5 -.5M${x + 0.5} ${y + 1}l.5 -.5`;
      }
      const drawing = Object.entries(paths).map(([look, d]) => svg("path", { class: `tlx-${look}`, d }));
      if (hatch) drawing.push(svg("path", { class: "tlx-h", d: hatch }));
      cells.replaceChildren(...drawing);
      numbers.replaceChildren();
      if (cell < 30) return;
      for (let i = 0; i < T * S; i += 1) {
        const look = looksLike(codes[i], edges, threshold);
        if (typeof look !== "number") continue;
        const value = codes[i] % MASKED;
        const text = value >= 10 && value !== TINY ? (value / 1000).toFixed(2).replace(/^0/, "") : value === 0 ? "0" : "<.01";
        numbers.append(svg("text", { class: `tlx-t${look}`, x: (i % S) + 0.5, y: Math.floor(i / S) + 0.5 }, text));
      }
    }

    return {
      node: plan, field, fit, draw,
      show(q, k) {
        now = [q, k];
        const d = `M0 ${q}h${S}v1h-${S}zM${k} 0v${T}h1v-${T}z`;
        ring.setAttribute("d", d);
        ringOut.setAttribute("d", d);
        [...rows.children].forEach((node, i) => node.classList.toggle("tlx-now", i === q));
        [...cols.children].forEach((node, i) => node.classList.toggle("tlx-now", i === k));
      },
    };
  }

  function legend(edges, words, withMask) {
    const names = [`<${edges[0]}`, ...edges.map((edge) => `${edge}+`)].map((text) => text.replace("0.", "."));
    const items = names.map((text, i) => {
      const swatch = el("i", { "aria-hidden": "true" });
      swatch.style.background = `var(--s${i})`;
      return el("li", {}, swatch, text);
    });
    const masked = el("li", {}, el("i.hatched", { "aria-hidden": "true" }), words.masked);
    const node = el("ul.legend", { "aria-label": words.legend }, ...items, withMask ? masked : null);
    return { node, show: (threshold) => items.forEach((item, i) => item.classList.toggle("tlx-off", i < threshold)) };
  }

  function radios(label, options, chosen, onChange) {
    const group = `tlx-${(radios.count = (radios.count ?? 0) + 1)}`;
    return el("fieldset.controls", {}, el("legend", {}, label), ...options.map(([value, text]) =>
      el("label", {}, el("input", { type: "radio", name: group, value, checked: value === chosen, change: () => onChange(value) }), text)));
  }

  /* ---- the first view: weights ---- */

  function mapView(data, words, panel, colour) {
    const [L, H, T, S] = data.shape;
    const all = unpack(data.codes);
    const self = data.keys === null;
    const queries = data.queries, keys = data.keys ?? data.queries;
    const pinned = { q: data.query, k: 0 };
    const state = { layer: data.layer, head: data.head, q: data.query, k: 0, side: "row", threshold: 0 };
    const headCodes = (layer, head) => all.subarray((layer * H + head) * T * S, (layer * H + head + 1) * T * S);
    let codes = headCodes(state.layer, state.head);
    const code = (q, k) => codes[q * S + k];
    for (let k = 1; k < S; k += 1) if (valueOf(code(state.q, k)) > valueOf(code(state.q, state.k))) state.k = k;
    if (self) state.k = state.q;
    pinned.k = state.k;

    const live = el("p.quiet", { "aria-live": "polite" });
    const headName = el("p.head");
    const line = el("div.line");
    const lists = [0, 1].map(() => ({ title: el("p.sub"), list: el("ol") }));
    const count = Math.min(5, Math.max(T, S));
    const masked = all.some(isMasked);

    const preview = (q, k) => { Object.assign(state, { q, k }); paint(); };
    const pin = (q, k, side) => {
      Object.assign(pinned, { q, k });
      if (side) state.side = side;
      preview(q, k);
      live.textContent = [line, ...lists.map((l) => l.title)].map((n, i) =>
        i === 0 ? n.textContent : `${n.textContent}: ${lists[i - 1].spoken}`).join(". ");
    };
    const back = () => preview(pinned.q, pinned.k);

    const onMap = heatMap(queries, keys, data.edges, words, { onPick: (q, k) => pin(q, k), onHover: preview, onLeave: back });
    const strips = self
      ? [strip(queries, words.tokens, words, { onPick: (i) => pin(i, i), onHover: (i) => preview(i, i), onLeave: back })]
      : [
        strip(queries, words.queries, words, { onPick: (i) => pin(i, pinned.k, "row"), onHover: (i) => { state.side = "row"; preview(i, pinned.k); }, onLeave: back }),
        strip(keys, words.keys, words, { onPick: (i) => pin(pinned.q, i, "col"), onHover: (i) => { state.side = "col"; preview(pinned.q, i); }, onLeave: back }),
      ];

    function look(q, k) {
      const c = code(q, k);
      return { look: looksLike(c, data.edges, state.threshold), leak: isMasked(c) && c % MASKED > 0 };
    }

    function fill({ title, list }, text, items) {
      title.textContent = text;
      const best = items.filter(([, c]) => c % MASKED > 0).sort((a, b) => valueOf(b[1]) - valueOf(a[1])).slice(0, 5);
      const entries = best.map(([token, c]) => {
        const bar = el("i", { "aria-hidden": "true" });
        bar.style.width = `${100 * valueOf(c)}%`;
        return el("li", {}, el("span", { title: full(token) }, ...drawn(token)), el("b", {}, written(c)), bar);
      });
      while (entries.length < count) entries.push(el("li", { "aria-hidden": "true" }));
      list.replaceChildren(...entries);
      return best.map(([token, c]) => `${name(token)} ${written(c)}`).join(", ");
    }

    function paint() {
      const { q, k } = state;
      const c = code(q, k);
      const state_ = isMasked(c) ? (c % MASKED ? ` (${words.leak})` : "") : "";
      line.textContent = `${full(queries[q])} → ${full(keys[k])}: ` + (c === MASKED ? words.masked : written(c)) + state_;
      lists[0].spoken = fill(lists[0], words.looksAt(full(queries[q])), keys.map((t, j) => [t, code(q, j)]));
      lists[1].spoken = fill(lists[1], words.seenBy(full(keys[k])), queries.map((t, i) => [t, code(i, k)]));
      if (self) {
        if (state.side === "row") strips[0].show(q, k === q ? -1 : k, (j) => look(q, j));
        else strips[0].show(k, k === q ? -1 : q, (i) => look(i, k));
      } else {
        strips[0].show(q, -1, state.side === "col" ? (i) => look(i, k) : null);
        strips[1].show(k, -1, state.side === "row" ? (j) => look(q, j) : null);
      }
      onMap.show(q, k);
    }

    function redraw() {
      codes = headCodes(state.layer, state.head);
      const short = data.layers ? data.layers[state.layer] : "";
      headName.textContent = words.head(state.layer, state.head, short);
      onMap.draw(codes, state.threshold);
      scale.show(state.threshold);
      if (details.open) fillTable();
      paint();
    }

    /* small multiples */
    const buttons = [];
    const choose = (layer, head, focus) => {
      Object.assign(state, { layer, head });
      buttons.forEach((button, i) => {
        const on = i === layer * H + head;
        button.setAttribute("aria-checked", String(on));
        button.tabIndex = on ? 0 : -1;
        if (on && focus) button.focus();
      });
      redraw();
    };
    function thumbnail(layer, head) {
      const canvas = el("canvas", { width: S, height: T, "aria-hidden": "true" });
      const context = canvas.getContext("2d");
      const image = context.createImageData(S, T);
      const own = headCodes(layer, head);
      for (let i = 0; i < T * S; i += 1) {
        const rgb = own[i] === MASKED ? [190, 190, 190] : colour[stepOf(valueOf(own[i]), data.edges)];
        image.data.set([...rgb, 255], 4 * i);
      }
      context.putImageData(image, 0, 0);
      return canvas;
    }
    let overview = null;
    if (L * H > 1) {
      const size = Math.max(24, Math.min(56, Math.floor(560 / H)));
      overview = el("div.heads", { role: "radiogroup", "aria-label": L > 1 ? words.heads : words.headsOne, keydown: (event) => {
        const by = move(event);
        if (!by) return;
        event.preventDefault();
        choose(clamp(state.layer + by[0], L), clamp(state.head + by[1], H), true);
      } });
      overview.style.gridTemplateColumns = `${L > 1 ? "1.4rem " : ""}repeat(${H}, minmax(24px, ${size}px))`;
      overview.style.width = `min(100%, ${H * size + 40}px)`;
      if (L > 1) overview.append(el("span"));
      for (let head = 0; head < H; head += 1) overview.append(el("span", { "aria-hidden": "true" }, String(head)));
      for (let layer = 0; layer < L; layer += 1) {
        if (L > 1) overview.append(el("span", { "aria-hidden": "true" }, String(layer)));
        for (let head = 0; head < H; head += 1) {
          const label = words.head(layer, head, data.layers ? data.layers[layer] : "");
          const button = el("button", { type: "button", role: "radio", "aria-label": label, title: label, click: () => choose(layer, head) }, thumbnail(layer, head));
          button.style.aspectRatio = "1";
          buttons.push(button);
          overview.append(button);
        }
      }
    }

    /* threshold, legend, table */
    const output = el("output.wide", {}, words.nothing);
    const slider = el("input", { type: "range", min: 0, max: data.edges.length, step: 1, value: 0, "aria-valuetext": words.nothing, input: () => {
      state.threshold = Number(slider.value);
      output.textContent = state.threshold ? String(data.edges[state.threshold - 1]) : words.nothing;
      slider.setAttribute("aria-valuetext", output.textContent);
      redraw();
    } });
    const scale = legend(data.edges, words, masked);
    const holder = el("div.scroll", { tabindex: 0, role: "group", "aria-label": words.table });
    const details = el("details", { toggle: () => details.open && fillTable() }, el("summary", {}, words.table), holder);
    function fillTable() {
      const header = el("tr", {}, el("td", {}, words.corner), ...keys.map((t) => el("th", { scope: "col" }, full(t))));
      const body = queries.map((t, q) => el("tr", {}, el("th", { scope: "row" }, full(t)), ...keys.map((_, k) => {
        const c = code(q, k);
        return el("td", {}, c === MASKED ? words.masked : written(c) + (isMasked(c) ? ` (${words.masked})` : ""));
      })));
      holder.replaceChildren(el("table", {}, el("caption", {}, `${headName.textContent}. ${words.tableHint}`), el("thead", {}, header), el("tbody", {}, ...body)));
    }

    if (overview) panel.append(el("p.hint", { "aria-hidden": "true" }, L > 1 ? words.heads : words.headsOne), overview);
    if (overview) panel.append(headName);
    if (self) panel.append(radios(words.side, [["row", words.looks], ["col", words.seen]], "row", (side) => {
      state.side = side;
      preview(pinned.q, pinned.k);
    }));
    strips.forEach((s, i) => panel.append(...(self ? [] : [el("p.hint", {}, i ? words.keys : words.queries)]), s.node));
    panel.append(
      el("p.hint", {}, words.pick), scale.node,
      el("div.controls", {}, el("label", {}, words.hide, slider), output),
      el("div.both", {}, el("div.read", {}, line, ...lists.map(({ title, list }) => el("div", {}, title, list))), onMap.node),
      live, details);
    if (L * H > 1) choose(state.layer, state.head);
    else redraw();
    return onMap;
  }

  /* ---- the second view: the steps of one attention ---- */

  function attention(data, { dk, scale, kind }) {
    const T = data.q.length, S = data.k.length;
    const root = scale ? Math.sqrt(dk) : 1;
    const may = (i, j) => (kind === "none" || kind === "causal" || data.real[j]) && (kind === "none" || kind === "padding" || j <= i + S - T);
    const rows = data.q.map((q, i) => {
      const scores = data.k.map((key) => { let sum = 0; for (let c = 0; c < dk; c += 1) sum += q[c] * key[c]; return sum; });
      const scaled = scores.map((s) => s / root);
      const allowed = scores.map((_, j) => may(i, j));
      const top = Math.max(...scaled.filter((_, j) => allowed[j]));
      const powers = scaled.map((s, j) => (allowed[j] ? Math.exp(s - top) : 0)); // the largest first, so nothing overflows
      const total = powers.reduce((a, b) => a + b, 0);
      const weights = powers.map((p) => (total > 0 ? p / total : 0)); // a row without an allowed key: zeros
      const output = data.v[0].map((_, c) => weights.reduce((sum, w, j) => sum + w * data.v[j][c], 0));
      return { scores, scaled, allowed, weights, output };
    });
    return { root, rows };
  }

  function deviation(numbers) {
    const mean = numbers.reduce((a, b) => a + b, 0) / numbers.length;
    return Math.sqrt(numbers.reduce((a, b) => a + (b - mean) ** 2, 0) / numbers.length);
  }

  function stepsView(data, words, panel) {
    const queries = data.queries, keys = data.keys ?? data.queries;
    const T = queries.length, S = keys.length, width = data.q[0].length, shownValues = Math.min(4, data.v[0].length);
    const state = { dk: data.dk, scale: data.scale, kind: data.mask, q: data.query, k: 0 };
    const pinned = { q: data.query, k: 0 };
    let result = null;

    const live = el("p.quiet", { "aria-live": "polite" });
    const title = el("p.head.keep");
    const one = el("p.hint.keep"), spread = el("p.hint.keep"), flat = el("p.hint.keep");
    const first = el("div.scroll", { tabindex: 0, role: "group" });
    const second = el("div.scroll", { tabindex: 0, role: "group" });
    const secondTitle = el("p.head", {}, words.mix(shownValues, data.v[0].length));
    second.setAttribute("aria-label", secondTitle.textContent);
    const preview = (q, k) => { Object.assign(state, { q, k }); paint(); };
    const pin = (q, k) => {
      Object.assign(pinned, { q, k });
      preview(q, k);
      speak();
    };
    const back = () => preview(pinned.q, pinned.k);
    const chips = strip(queries, words.queries, words, { onPick: (i) => pin(i, pinned.k), onHover: (i) => preview(i, pinned.k), onLeave: back });
    const onMap = heatMap(queries, keys, data.edges, words, { onPick: pin, onHover: preview, onLeave: back });

    function speak() {
      const row = result.rows[state.q];
      live.textContent = `${title.textContent}. ` + row.weights.map((w, j) => `${name(keys[j])} ${row.allowed[j] ? fixed(w, 3) : words.masked}`).join(", ") + `. ${flat.textContent}`;
    }

    function codes() {
      const list = [];
      result.rows.forEach((row) => row.weights.forEach((w, j) => {
        const value = Math.round(w * 1000);
        list.push((value === 0 && w > 0 ? TINY : value) + (row.allowed[j] ? 0 : MASKED));
      }));
      return list;
    }

    function worked(q, k) {
      const terms = Math.min(state.dk, 3);
      const parts = [];
      const factor = (x, bare) => (x < 0 && !bare ? `(${fixed(x, 2)})` : fixed(x, 2));
      for (let c = 0; c < terms; c += 1) parts.push(`${factor(data.q[q][c], c === 0)} · ${factor(data.k[k][c])}`);
      return words.one(full(keys[k])) + parts.join(" + ") + (state.dk > terms ? " + …" : "") + ` = ${fixed(result.rows[q].scores[k], 2)}`;
    }

    function paint() {
      const { q, k } = state;
      const row = result.rows[q];
      title.textContent = words.stepsOf(full(queries[q]));
      first.setAttribute("aria-label", title.textContent);
      one.textContent = worked(q, k);
      const sub = el("small", {}, "q·k");
      const head = el("tr", {},
        el("th", { scope: "col" }, words.key),
        el("th", { scope: "col" }, words.score, sub),
        el("th", { scope: "col" }, words.scaled, el("small", {}, state.scale ? `÷ ${fixed(result.root, 2)}` : "÷ 1")),
        el("th", { scope: "col" }, words.add, el("small", {}, "+ M")),
        el("th", { scope: "col" }, words.weight));
      const body = keys.map((token, j) => {
        const free = row.allowed[j];
        const value = fixed(row.weights[j], 3);
        const weight = free ? el("td.w", { "data-step": stepOf(+row.weights[j].toFixed(3), data.edges) }, value) : el("td.w.hatched", {}, value);
        const line = el("tr", {},
          el("th", { scope: "row", title: full(token) }, ...drawn(token)),
          el("td", {}, fixed(row.scores[j], 2)), el("td", {}, fixed(row.scaled[j], 2)),
          free ? el("td", {}, "0") : el("td.hatched", {}, el("span", { "aria-hidden": "true" }, "−∞"), el("span.quiet", {}, words.minus)),
          weight);
        if (j === k) line.classList.add("tlx-row-now");
        return line;
      });
      const sum = row.weights.reduce((a, b) => a + b, 0);
      const foot = el("tr", {}, el("th", { scope: "row" }, words.total), el("td"), el("td"), el("td"), el("td", {}, fixed(sum, 3)));
      first.replaceChildren(el("table.steps.sums", {}, el("thead", {}, head), el("tbody", {}, ...body), el("tfoot", {}, foot)));
      const parts = [...Array(shownValues).keys()];
      second.replaceChildren(el("table.steps", {},
        el("thead", {}, el("tr", {}, el("th", { scope: "col" }, words.key), ...parts.map((c) => el("th", { scope: "col" }, String(c))))),
        el("tbody", {}, ...keys.map((token, j) => el("tr", {}, el("th", { scope: "row", title: full(token) }, ...drawn(token)),
          ...parts.map((c) => el("td", {}, fixed(row.weights[j] * data.v[j][c], 3)))))),
        el("tfoot", {}, el("tr", {}, el("th", { scope: "row" }, words.sum), ...parts.map((c) => el("td", {}, fixed(row.output[c], 3)))))));
      const free = row.allowed.filter(Boolean).length;
      const entropy = -row.weights.reduce((a, w) => a + (w > 0 ? w * Math.log(w) : 0), 0);
      flat.textContent = free ? words.flat(fixed(Math.max(...row.weights), 3), fixed(entropy, 2), fixed(Math.log(free), 2)) : words.empty;
      chips.show(q, -1, null);
      onMap.show(q, k);
    }

    function compute() {
      result = attention(data, state);
      spread.textContent = words.spread(...["scores", "scaled"].map((n) => fixed(deviation(result.rows.flatMap((row) => row[n])), 2)));
      onMap.draw(codes(), 0);
      paint();
    }

    const output = el("output", {}, `${state.dk} / ${width}`);
    const slider = el("input", { type: "range", min: 1, max: width, step: 1, value: state.dk, input: () => {
      state.dk = Number(slider.value);
      output.textContent = `${state.dk} / ${width}`;
      scaling.textContent = words.scale(`√${state.dk}`);
      compute();
    }, change: speak });
    const scaling = el("span", {}, words.scale(`√${state.dk}`));
    const tick = el("input", { type: "checkbox", checked: state.scale, change: () => {
      state.scale = tick.checked;
      compute();
      speak();
    } });
    panel.append(
      el("div.controls", {}, el("label", {}, words.dk, el("span", {}, "(d", el("sub", {}, "k"), ")"), slider), output),
      el("div.controls", {}, el("label", {}, tick, scaling)),
      ...(data.kinds.length > 1 ? [radios(words.mask, data.kinds.map((kind) => [kind, words.kinds[kind]]), state.kind, (kind) => {
        state.kind = kind;
        compute();
        speak();
      })] : []),
      el("p.hint", {}, words.queries), chips.node, el("p.hint", {}, words.pick),
      el("div.both", {},
        el("div.read.roomy", {}, title, first, one, spread, flat, secondTitle, second),
        el("div.side", {}, el("p.head", {}, words.all), onMap.node, legend(data.edges, words, data.kinds.length > 1).node)),
      live);
    compute();
    state.k = pinned.k = result.rows[state.q].weights.indexOf(Math.max(...result.rows[state.q].weights));
    paint();
    return onMap;
  }

  /* ---- coming alive ---- */

  function start(root) {
    const data = JSON.parse(root.dataset.tlx);
    const language = (root.closest("[lang]")?.lang ?? "en").toLowerCase().startsWith("ko") ? "ko" : "en";
    const words = WORDS[language];
    const host = document.createElement("div");
    host.className = "tlx-live";
    const shadow = host.attachShadow({ mode: "open" });
    const label = words[data.view] + (data.title ? `: ${data.title}` : "");
    const panel = el("div.panel", { role: "group", "aria-label": label, lang: language });
    if (data.title) panel.append(el("p.title", {}, data.title));
    shadow.append(root.querySelector("style").cloneNode(true), panel);
    root.append(host);
    root.classList.add("tlx-on");
    const style = getComputedStyle(root);
    const colour = [0, 1, 2, 3, 4, 5, 6].map((i) => {
      const hex = style.getPropertyValue(`--s${i}`).trim();
      return [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
    });
    const map = (data.view === "map" ? mapView : stepsView)(data, words, panel, colour);
    let width = 0;
    const fit = () => {
      const room = panel.clientWidth - 20;
      if (room > 0 && room !== width) map.fit((width = room));
    };
    fit();
    if (typeof ResizeObserver !== "undefined") new ResizeObserver(fit).observe(panel);
  }

  for (const root of document.querySelectorAll(".tlx[data-tlx]:not(.tlx-on)")) {
    try {
      start(root);
    } catch (error) {
      root.classList.remove("tlx-on"); // the still picture stays
      root.querySelector(".tlx-live")?.remove();
      throw error;
    }
  }
})();
