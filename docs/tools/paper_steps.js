/* Shows one step of a figure at a time. Without this script, all steps are shown. */
(function () {
  "use strict";

  const figure = document.currentScript.closest(".kt-steps");
  const steps = Array.from(figure.querySelectorAll("ol.kt-list > li"));
  let current = 0;

  function button(text, label, action) {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = text;
    made.setAttribute("aria-label", label);
    made.addEventListener("click", action);
    return made;
  }

  const controls = document.createElement("div");
  controls.className = "kt-controls";
  const back = button("\u2190 Back", "Previous step", function () { show(current - 1); });
  const next = button("Next \u2192", "Next step", function () { show(current + 1); });
  const status = document.createElement("span");
  status.setAttribute("role", "status");
  controls.append(back, status, next);

  const stages = document.createElement("div");
  stages.className = "kt-stages";
  const chips = steps.map(function (step, number) {
    const title = step.querySelector(".kt-title").textContent;
    return button(step.dataset.stage, "Step " + (number + 1) + ": " + title, function () {
      show(number);
    });
  });
  stages.append(...chips);

  function show(number) {
    current = Math.max(0, Math.min(steps.length - 1, number));
    steps.forEach(function (step, index) { step.hidden = index !== current; });
    chips.forEach(function (chip, index) {
      if (index === current) {
        chip.setAttribute("aria-current", "step");
      } else {
        chip.removeAttribute("aria-current");
      }
    });
    back.disabled = current === 0;
    next.disabled = current === steps.length - 1;
    status.textContent = "Step " + (current + 1) + " of " + steps.length;
  }

  figure.addEventListener("keydown", function (event) {
    const moves = { ArrowLeft: current - 1, ArrowRight: current + 1, Home: 0, End: steps.length };
    if (event.key in moves && !event.altKey && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      show(moves[event.key]);
    }
  });
  figure.tabIndex = 0;
  figure.setAttribute("role", "group");
  figure.classList.add("is-stepping");
  figure.insertBefore(controls, figure.querySelector("ol.kt-list"));
  figure.insertBefore(stages, figure.querySelector("ol.kt-list"));
  show(0);
})();
