// What all columns share: a head, the current request, and its outcome.

import { RequestFailed, stream } from "./client.js";
import { announce, count, make } from "./elements.js";
import { languagesOf } from "./languages.js";

export class Column {
  /** `run` comes from the JSON interface; `path` is the path of its stream, `action` a button. */
  constructor(run, path, action) {
    this.run = run;
    this.path = path;
    this.request = null; // the current request
    this.status = make("p", "muted");
    this.fault = make("p", "fault", { role: "alert" });
    this.fault.hidden = true;
    const title = make("h2", "", {}, run.name);
    const languages = make("p", "muted", {}, languagesOf(run));
    languages.hidden = !languages.textContent;
    const head = make("div", "panel-head", {}, title, languages);
    this.body = make("div", "text");
    const foot = make("div", "panel-foot", {}, this.status, action);
    const parts = [head, this.body, this.fault, foot];
    this.element = make("section", "panel column", { "aria-label": run.name }, ...parts);
  }

  get isBusy() {
    return this.request !== null;
  }

  stop() {
    this.request?.abort();
    this.request = null;
    this.status.textContent = "";
  }

  /** Ends the current request; what has not been computed will not arrive. */
  halt() {
    if (!this.isBusy) return;
    this.stop();
    this.breakOff();
  }

  /** Shows why a text is not sent. */
  refuse(message) {
    this.halt();
    this.status.textContent = "";
    this.setFault(message);
  }

  /** Sends a text instead of the previous one; `begin`, `add` and `skip` receive the results.
      Returns whether all of it was answered. */
  send(text, settings) {
    return this.ask((request) => this.receive(request, text, settings));
  }

  async receive(request, text, settings) {
    let total = 0;
    let done = 0;
    let skipped = 0;
    const body = { text, run: this.run.name, long_sentences: "skip", ...settings };
    for await (const event of stream(this.path, body, request.signal)) {
      if (this.request !== request) return null;
      if (event.event === "start") {
        total = event.sentences.length;
        this.begin(text, event.sentences);
      } else if (event.event === "sentence") {
        done += 1;
        this.add(event);
      } else if (event.event === "refused") {
        done += 1;
        skipped += 1;
        this.skip(event);
      }
      if (event.event !== "end") this.status.textContent = `${done} of ${total}`;
    }
    return count(total, "sentence") + (skipped ? `, ${skipped} too long` : "");
  }

  /** Replaces the current request. `answered(request)` shows its answer and returns its summary, or
      null if the request is no longer the current one. Returns whether it was answered. */
  async ask(answered) {
    this.stop();
    const request = new AbortController();
    this.request = request;
    this.setFault("");
    try {
      const said = await answered(request);
      if (said === null) return false;
      this.status.textContent = said;
      announce(`${this.run.name}: ${said}`);
      return true;
    } catch (error) {
      if (this.request !== request) return false; // stopped, or another text was sent
      if (!(error instanceof RequestFailed)) throw error;
      this.status.textContent = "";
      this.setFault(error.message);
      this.breakOff();
      return false;
    } finally {
      if (this.request === request) this.request = null;
    }
  }

  setFault(message) {
    this.fault.textContent = message;
    this.fault.hidden = !message;
  }
}
