// Search options: an empty field stands for the run's own value.

import { byId, make } from "./elements.js";

const USUAL_N_BEST = 3;
const N_BEST = {
  name: "n_best",
  label: "Best translations to show",
  hint: "How many translations to list for the selected sentence.",
  min: 1,
  step: 1,
  most: "most_beam_size",
  of: "translation",
};

export class SearchForm {
  /**
   * `runs` come from the JSON interface, `options` are the inputs for their search; `onChange()` is
   * called when an option changes.
   */
  constructor(runs, options, onChange) {
    this.fields = [N_BEST, ...options];
    this.form = byId("options");
    this.inputs = new Map();
    this.output = runs.some(({ kind }) => kind === "translation") ? "translation" : "tree";
    for (const field of this.fields) {
      const concerned = runs.filter(({ kind }) => !field.of || kind === field.of);
      if (concerned.length) this.add(field, concerned);
    }
    const reset = make("button", "", { type: "reset" }, "Reset");
    this.form.append(reset);
    this.form.addEventListener("reset", () => setTimeout(onChange));
    this.form.addEventListener("change", onChange);
    this.form.addEventListener("submit", (event) => event.preventDefault());
  }

  /** What is wrong with the options, or null. */
  get fault() {
    const field = this.fields.find(({ name }) => this.inputs.get(name)?.checkValidity() === false);
    return field ? `${field.label}: ${this.inputs.get(field.name).validationMessage}` : null;
  }

  /** Shows the invalid option. */
  report() {
    this.form.closest("details").open = true;
    this.form.reportValidity();
  }

  /** The fields of a request to a run. */
  settings(run) {
    const search = {};
    for (const field of this.fields) {
      const input = this.inputs.get(field.name);
      if (!input?.value || field.name === "n_best" || (field.of && field.of !== run.kind)) continue;
      search[field.name] = field.choices ? input.value : input.valueAsNumber;
    }
    if (run.kind !== "translation") return { search };
    const wanted = this.inputs.get("n_best").valueAsNumber || USUAL_N_BEST;
    return { search, n_best: Math.min(wanted, search.beam_size ?? run.search.beam_size) };
  }

  add(field, runs) {
    const values = new Set(runs.map((run) => run.search[field.name] ?? USUAL_N_BEST));
    const value = [...values][0];
    const own = values.size === 1 ? String(field.choices?.[value] ?? value) : "each run’s own";
    let input;
    if (field.choices) {
      const choices = Object.entries(field.choices).map(([choice, words]) =>
        make("option", "", { value: choice }, words),
      );
      input = make("select", "", {}, make("option", "", { value: "" }, `(${own})`), ...choices);
    } else {
      const limits = runs.map((run) => run[field.most ?? `most_${field.name}`] ?? field.max);
      const max = Math.max(...limits);
      const { min, step } = field;
      input = make("input", "", { type: "number", min, max, step, placeholder: own });
    }
    input.name = field.name;
    input.setAttribute("aria-describedby", `hint-${field.name}`);
    this.inputs.set(field.name, input);
    const [label, words] = [field.label, field.hint].map((text) =>
      text.replaceAll("translation", this.output),
    );
    const hint = make("p", "muted", { id: `hint-${field.name}` }, words);
    this.form.append(make("div", "", {}, make("label", "", {}, label, input), hint));
  }
}
