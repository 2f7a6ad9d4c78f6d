import { useEffect, useRef } from "react";
import { useSettings } from "./settings";

type Handler = (event: KeyboardEvent) => void;

const TYPING = "input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable], [role=menu]";

/**
 * Single keys, by `event.key` (`j`, `Enter`, `?`), with `Shift+` before a letter, or two after each other (`g r`). They do
 * nothing while someone types, in menus and dialogs, or if they are switched off.
 */
export function useKeys(handlers: Record<string, Handler>): void {
  const latest = useRef(handlers);
  latest.current = handlers;
  useEffect(() => {
    let before = "";
    let at = 0;
    const onKey = (event: KeyboardEvent) => {
      if (!useSettings.getState().keys || event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented)
        return;
      const target = event.target as HTMLElement;
      if (target.closest(TYPING) || document.querySelector("[role=dialog]")) return;
      const key = event.shiftKey && /^[A-Z]$/.test(event.key) ? `Shift+${event.key.toLowerCase()}` : event.key;
      const pair = Date.now() - at < 1000 ? `${before} ${key}` : "";
      before = key;
      at = Date.now();
      const handler = latest.current[pair] ?? latest.current[key];
      if (!handler) return;
      event.preventDefault();
      before = "";
      handler(event);
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, []);
}
