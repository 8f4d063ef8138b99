/* A worker for pages that are opened as files: browsers then refuse to start a real one. The search
   runs its script in a hidden frame instead. Elsewhere this file does nothing. */
if (location.protocol === "file:") {
  window.Worker = window.IFrameWorker = class extends EventTarget {
    #frame = document.createElement("iframe");
    #isLoaded;

    constructor(url) {
      super();
      this.#frame.hidden = true;
      document.body.append(this.#frame);
      const inner = this.#frame.contentWindow;
      inner.document.open();
      inner.document.write("<!doctype html><title>Search</title><body>");
      inner.document.close();
      inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inner.document.createElement("script");
      script.src = new URL(url, location);
      this.#isLoaded = new Promise((resolve) => script.addEventListener("load", resolve));
      inner.document.body.append(script);
    }

    async postMessage(data) {
      await this.#isLoaded;
      const inner = this.#frame.contentWindow;
      inner.dispatchEvent(new inner.MessageEvent("message", { data }));
    }

    terminate() {
      this.#frame.remove();
    }
  };
}
