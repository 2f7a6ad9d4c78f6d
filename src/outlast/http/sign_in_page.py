"""The sign-in page. It is served here, so that a server without the web page can be signed in to."""

SIGN_IN = b"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Sign in - Outlast</title>
<link rel="stylesheet" href="sign-in.css">
</head>
<body>
<main>
<h1>Sign in to Outlast</h1>
<form id="sign-in">
<label for="code">One-time code</label>
<input id="code" name="code" autocomplete="one-time-code" spellcheck="false" required>
<button type="submit">Sign in</button>
<p id="message" role="status"></p>
</form>
</main>
<script src="sign-in.js"></script>
</body>
</html>
"""

SCRIPT = b"""const form = document.getElementById("sign-in");
const code = document.getElementById("code");
const message = document.getElementById("message");
code.value = location.hash.slice(1);
history.replaceState(null, "", location.pathname);
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const response = await fetch("api/v1/session", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ code: code.value.trim() }),
  });
  code.value = "";
  if (response.ok) {
    location.replace("./");
  } else {
    message.textContent = (await response.json()).detail;
  }
});
"""

STYLE = b"""body { font: 16px/1.5 system-ui, sans-serif; margin: 0; display: grid; min-height: 100vh; place-items: center }
main { width: min(28rem, 90vw) }
input, button { display: block; width: 100%; box-sizing: border-box; padding: .5rem; margin: .5rem 0; font: inherit }
"""
