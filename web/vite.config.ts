import { fileURLToPath } from "node:url";
import tailwindcss from "@tailwindcss/vite";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

const server = "http://127.0.0.1:8470";

export default defineConfig({
  // Every address in the page is relative to its <base>, so that a server can mount it under any path.
  base: "./",
  plugins: [react(), tailwindcss()],
  resolve: { alias: { "@": fileURLToPath(new URL("src", import.meta.url)) } },
  build: {
    outDir: "../src/outlast/http/page",
    emptyOutDir: true,
    target: ["chrome125", "firefox128", "safari17.5"],
    // The content security policy of the server allows no data: and no inline script.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  worker: { format: "es" },
  server: { proxy: { "/api": { target: server, ws: true } } },
  test: { environment: "node", include: ["src/**/*.test.{ts,tsx}"] },
});
