"use strict";
// Moves the threshold of a score column. Every number is a count that Python took, or a quotient of two.
(function () {
  const data = JSON.parse(document.getElementById("counts").textContent);
  // counts come as the first one and what every step takes away
  function added(row) {
    let left = 2 * row[0];
    return row.map((step) => (left -= step));
  }
  for (const score of data.scores)
    for (const key of ["selected", "true_positives"]) if (key in score) score[key] = score[key].map(added);
  const RATES = ["selection_rate", "tpr", "fpr", "ppv", "accuracy"];

  const thousands = (n) => String(n).replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");
  const percent = (rate) => (rate === null ? "–" : (100 * rate).toFixed(1));
  const share = (part, whole) => (whole > 0 ? part / whole : null);

  // The rates of some groups together at step i, by weight where rows have weights.
  function rates(score, groups, i) {
    const weighted = "selected_weight" in score;
    const sum = (values) => groups.reduce((total, j) => total + values[j], 0);
    const at = (lists) => groups.reduce((total, j) => total + lists[j][i], 0);
    const all = sum(weighted ? score.weight : score.rows);
    const above = at(weighted ? score.selected_weight : score.selected);
    const found = { selection_rate: share(above, all) };
    if ("true_positives" in score) {
      const positives = sum(weighted ? score.positives_weight : score.positives);
      const right = at(weighted ? score.true_positives_weight : score.true_positives);
      found.tpr = share(right, positives);
      found.fpr = share(above - right, all - positives);
      found.ppv = share(right, above);
      found.accuracy = share(right + (all - positives) - (above - right), all);
    }
    return found;
  }

  // Both rates of every comparison that can be made; of groups each compared with every other, the
  // highest and the lowest. Who has too few rows is shown and left out.
  function bothRates(score, key, i) {
    const { sides, pairs } = data.compared[key] || { sides: [], pairs: null };
    const values = sides.map((groups) => rates(score, groups, i)[key]);
    const known = (value) => value !== null && value !== undefined;
    if (pairs) return pairs.map(([a, b]) => [values[a], values[b]]).filter(([a, b]) => known(a) && known(b));
    const all = values.filter(known);
    return all.length > 1 ? [[Math.max(...all), Math.min(...all)]] : [];
  }

  function largestGap(both) {
    return both.length ? Math.max(...both.map(([a, b]) => Math.abs(a - b))) : null;
  }

  function impactRatio(both) {
    const favourable = both.map((pair) => (data.favourable === "low" ? pair.map((value) => 1 - value) : pair));
    const ratios = favourable.map(([a, b]) => share(Math.min(a, b), Math.max(a, b))).filter((value) => value !== null);
    return ratios.length ? Math.min(...ratios) : null;
  }

  // The last threshold that is not above a value: on a coarse scale it decides the same.
  function atOrBelow(thresholds, value) {
    let low = 0, high = thresholds.length;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (thresholds[middle] <= value) low = middle; else high = middle;
    }
    return low;
  }

  function nearest(thresholds, value) {
    const low = atOrBelow(thresholds, value), high = Math.min(low + 1, thresholds.length - 1);
    return value - thresholds[low] < thresholds[high] - value ? low : high;
  }

  function setUp(section, score) {
    const all = (selector) => Array.from(section.querySelectorAll(selector));
    const slider = section.querySelector("[data-slider]");
    const number = section.querySelector("[data-number]");
    const lines = all(".cut");

    function show(i) {
      const t = score.thresholds[i];
      const groups = score.rows.map((_, j) => rates(score, [j], i));
      slider.value = i;
      slider.setAttribute("aria-valuetext", score.labels[i]);
      if (document.activeElement !== number) number.value = t;
      section.querySelector("[data-threshold]").textContent = score.labels[i];
      const at = Math.min(Math.max((t - score.low) / (score.high - score.low), 0), 1);
      for (const line of lines) {
        line.setAttribute("x1", (100 * at).toFixed(2) + "%");
        line.setAttribute("x2", (100 * at).toFixed(2) + "%");
      }
      groups.forEach((group, j) => {
        for (const cell of all(`[data-cell^="${j}-"]`)) {
          const key = cell.dataset.cell.split("-")[1];
          cell.textContent = key === "count"
            ? `${thousands(score.selected[j][i])} of ${thousands(score.rows[j])}`
            : percent(group[key]);
        }
        for (const bar of all(`[data-bar="${j}"]`)) bar.setAttribute("width", (100 * (group.selection_rate || 0)).toFixed(1) + "%");
      });
      for (const key of RATES) {
        const gap = percent(largestGap(bothRates(score, key, i)));
        for (const cell of all(`[data-gap="${key}"]`)) cell.textContent = gap;
      }
      const ratio = impactRatio(bothRates(score, "selection_rate", i));
      section.querySelector("[data-ratio]").textContent = ratio === null ? "–" : ratio.toFixed(2);
      section.querySelector("[data-below]").hidden = !(ratio !== null && ratio < 0.8);
      section.querySelector("[data-above]").hidden = !(ratio !== null && ratio >= 0.8);
    }

    function drag(frame) {
      const svg = frame.querySelector("svg");
      const move = (event) => {
        const box = svg.getBoundingClientRect();
        const at = (event.clientX - box.left) / box.width;
        show(nearest(score.thresholds, score.low + at * (score.high - score.low)));
      };
      let held = null;  // the pointer that is down, where it came down, whether it moves the threshold
      frame.addEventListener("pointerdown", (event) => {
        if (event.button !== 0) return;
        held = { id: event.pointerId, x: event.clientX, y: event.clientY, moves: event.pointerType === "mouse" };
        frame.setPointerCapture(event.pointerId);
        if (held.moves) move(event);
      });
      frame.addEventListener("pointermove", (event) => {
        if (!held || held.id !== event.pointerId) return;
        // a finger may be about to scroll the page: it moves the threshold once it goes sideways
        const [right, down] = [Math.abs(event.clientX - held.x), Math.abs(event.clientY - held.y)];
        held.moves = held.moves || (right > 3 && right > down);
        if (held.moves) move(event);
      });
      frame.addEventListener("pointerup", (event) => {
        if (held && held.id === event.pointerId) move(event);  // a tap counts too
        held = null;
      });
      frame.addEventListener("pointercancel", () => { held = null; });
    }

    slider.addEventListener("input", () => show(Number(slider.value)));
    number.addEventListener("change", () => {
      if (Number.isFinite(number.valueAsNumber)) show(atOrBelow(score.thresholds, number.valueAsNumber));
    });
    number.addEventListener("blur", () => show(Number(slider.value)));
    for (const button of all("[data-step]")) button.addEventListener("click", () => show(Number(button.dataset.step)));
    for (const frame of all("[data-drag]")) drag(frame);
    show(Number(slider.getAttribute("value")));
  }

  document.documentElement.classList.add("js");
  data.scores.forEach((score, i) => setUp(document.getElementById(`score-${i}`), score));
})();
