// A worker in a frame, for pages that a browser opens from the file system, where it starts no workers: the search needs one.
// SPDX-License-Identifier: Apache-2.0
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      document.body.appendChild(frame);
      this.frame = frame;
      this.receive = event => {
        if (event.source === frame.contentWindow) {
          this.dispatchEvent(new MessageEvent("message", { data: event.data }));
          if (this.onmessage) this.onmessage(event);
        }
      };
      window.addEventListener("message", this.receive);
      const page = frame.contentDocument;
      page.open();
      page.write(`<!doctype html><html lang="en"><title>search</title><body><script>
        postMessage = data => parent.postMessage(data, "*");
        importScripts = (...urls) => urls.reduce((before, url) => before.then(() => new Promise(resolve => {
          const script = document.createElement("script");
          script.src = url;
          script.addEventListener("load", resolve);
          document.body.appendChild(script);
        })), Promise.resolve());
        </scr` + `ipt><script src="${url}"></scr` + `ipt></body></html>`);
      page.close();
      this.ready = new Promise(resolve => frame.addEventListener("load", resolve));
    }
    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
      window.removeEventListener("message", this.receive);
    }
  };
}
