// From a folder, without a server, a browser lets no page read others for a summary of them.
if (location.protocol === "file:") {
  DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
}
// Names for controls of the theme that screen readers would not name rightly.
document.addEventListener("DOMContentLoaded", () => {
  for (const summary of document.querySelectorAll("summary:has(.toctree-toggle)")) {
    const link = summary.closest("li")?.querySelector("a");
    summary.setAttribute("aria-label", `Pages of ${link?.textContent.trim() ?? "this section"}`);
  }
  // Their names begin with what they show; on a phone the button shows an icon alone.
  for (const button of document.querySelectorAll(".search-button-field")) {
    button.setAttribute("aria-label", button.textContent.trim().replace(/\s+/g, " "));
  }
  for (const summary of document.querySelectorAll("details.hide summary[aria-label]")) {
    summary.removeAttribute("aria-label");
  }
  // What scrolls can be reached by the keyboard, as the theme does for tables and code.
  for (const drawing of document.querySelectorAll('.bd-article p > img[src$=".svg"]')) {
    const box = drawing.parentElement;
    const set = () => { box.tabIndex = box.scrollWidth > box.clientWidth ? 0 : -1; };
    drawing.addEventListener("load", set);
    window.addEventListener("resize", set);
    set();
  }
});
