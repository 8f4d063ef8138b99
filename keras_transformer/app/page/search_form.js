// Options of the search: what is not filled in is each run's own.

import { byId, make } from "./elements.js";

const USUAL_N_BEST = 3;
const FIELDS = [
  { name: "n_best", label: "Best translations to show", min: 1, step: 1, of: "translation" },
  { name: "beam_size", label: "Beam size", min: 1, step: 1, most: "most_beam_size" },
  { name: "alpha", label: "Alpha", min: 0, max: 9.9, step: "any" },
  { name: "length_penalty", label: "Length penalty", choices: ["gnmt", "power"] },
  { name: "ending", label: "Ending", choices: ["any", "transformers"], of: "translation" },
  { name: "extra_length", label: "Extra length", min: 1, step: 1, most: "most_extra_length" },
];

export class SearchForm {
  /** `runs` are of the JSON interface; `onChange()` is called when an option changes. */
  constructor(runs, onChange) {
    this.form = byId("options");
    this.inputs = new Map();
    for (const field of FIELDS) {
      const concerned = runs.filter(({ kind }) => !field.of || kind === field.of);
      if (concerned.length) this.add(field, concerned);
    }
    const reset = make("button", "", { type: "reset" }, "The runs’ own");
    this.form.append(reset);
    this.form.addEventListener("reset", () => setTimeout(onChange));
    this.form.addEventListener("change", onChange);
    this.form.addEventListener("submit", (event) => event.preventDefault());
  }

  /** What is wrong with an option, or null. */
  get fault() {
    const field = FIELDS.find(({ name }) => this.inputs.get(name)?.checkValidity() === false);
    return field ? `${field.label}: ${this.inputs.get(field.name).validationMessage}` : null;
  }

  /** Leads to the option that is wrong. */
  report() {
    this.form.closest("details").open = true;
    this.form.reportValidity();
  }

  /** The fields of a request to a run. */
  settings(run) {
    const search = {};
    for (const field of FIELDS) {
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
    const own = values.size === 1 ? String([...values][0]) : "each run’s own";
    let input;
    if (field.choices) {
      const choices = field.choices.map((choice) => make("option", "", {}, choice));
      input = make("select", "", {}, make("option", "", { value: "" }, `(${own})`), ...choices);
    } else {
      const max = field.max ?? Math.max(...runs.map((run) => run[field.most ?? "most_beam_size"]));
      const { min, step } = field;
      input = make("input", "", { type: "number", min, max, step, placeholder: own });
    }
    input.name = field.name;
    this.inputs.set(field.name, input);
    this.form.append(make("label", "", {}, field.label, input));
  }
}
