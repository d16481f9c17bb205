// Before the first paint, so that nothing flashes.
const chosen = localStorage.getItem("wakeful-theme");
if (chosen) document.documentElement.dataset.theme = chosen;
