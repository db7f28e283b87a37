// Runs before the first paint, so that the page never flashes in the other theme. Not a module: those come later.
(() => {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  try {
    chosen = localStorage.getItem("etcron.theme");
  } catch {
    // the reader lets nothing be kept
  }
  const apply = () => {
    const theme = chosen === "light" || chosen === "dark" ? chosen : dark.matches ? "dark" : "light";
    document.documentElement.setAttribute("data-bs-theme", theme);
  };
  apply();
  dark.addEventListener("change", apply);
  window.addEventListener("etcron:theme", ({ detail }) => {
    chosen = detail;
    apply();
  });
})();
