// Before the first paint, so that nothing flashes.
const chosen = localStorage.getItem("wakeful-theme");
if (chosen) document.documentElement.dataset.theme = chosen;
// So that the server can draw calendars in the reader's zone.
document.cookie = `wakeful_tz=${encodeURIComponent(Intl.DateTimeFormat().resolvedOptions().timeZone)}; path=/; max-age=31536000; samesite=strict`;
