/* Turns the page light or dark, and adds the component if there is attention to show. */
(function () {
  "use strict";

  const root = document.documentElement;
  const button = document.getElementById("theme");
  const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme || (prefersDark.matches ? "dark" : "light")) === "dark";
  const name = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", isDark() ? "Light colors" : "Dark colors");
  };
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    name();
  });
  prefersDark.addEventListener("change", name);
  name();

  const place = document.getElementById("attention");
  if (place) {
    const data = JSON.parse(document.getElementById("data").textContent);
    KerasTransformerAttention.mount(place, data);
  }
})();
