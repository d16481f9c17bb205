// Before the first paint, so that nothing flashes.
const chosen = localStorage.getItem("wakeful-theme");
if (chosen) document.documentElement.dataset.theme = chosen;
// So that the server can draw calendars in the reader's zone. What came before it knew is asked for again (app.js).
const readerZone = `wakeful_tz=${encodeURIComponent(Intl.DateTimeFormat().resolvedOptions().timeZone)}`;
if (!document.cookie.split("; ").includes(readerZone)) document.documentElement.dataset.zone = "new";
document.cookie = `${readerZone}; path=/; max-age=31536000; samesite=strict`;
