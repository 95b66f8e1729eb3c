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

  // The rates of group j at step i, by weight where rows have weights.
  function rates(score, j, i) {
    const weighted = "selected_weight" in score;
    const all = (weighted ? score.weight : score.rows)[j];
    const above = (weighted ? score.selected_weight : score.selected)[j][i];
    const found = { selection_rate: share(above, all) };
    if ("true_positives" in score) {
      const positives = (weighted ? score.positives_weight : score.positives)[j];
      const right = (weighted ? score.true_positives_weight : score.true_positives)[j][i];
      found.tpr = share(right, positives);
      found.fpr = share(above - right, all - positives);
      found.ppv = share(right, above);
      found.accuracy = share(right + (all - positives) - (above - right), all);
    }
    return found;
  }

  function spread(values) {
    const known = values.filter((value) => value !== null && value !== undefined);
    return known.length > 1 ? Math.max(...known) - Math.min(...known) : null;
  }

  // The groups whose rates of this kind are compared; who has too few rows is shown and left out.
  const compared = (groups, key) => (data.compared[key] || []).map((j) => groups[j][key]);

  function impactRatio(values) {
    const known = values.filter((value) => value !== null);
    const favourable = data.favourable === "low" ? known.map((value) => 1 - value) : known;
    return share(Math.min(...favourable), Math.max(...favourable));
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
      const groups = score.rows.map((_, j) => rates(score, j, i));
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
        const gap = percent(spread(compared(groups, key)));
        for (const cell of all(`[data-gap="${key}"]`)) cell.textContent = gap;
      }
      const ratio = impactRatio(compared(groups, "selection_rate"));
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
