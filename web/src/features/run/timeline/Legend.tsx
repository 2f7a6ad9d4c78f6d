const ITEMS: [string, string][] = [
  ["bg-own", "own work"],
  ["bg-run-bar bar-open", "at work"],
  ["bar-queued", "queued"],
  ["bg-ink", "engine"],
  ["bar-waiting", "waiting"],
  ["bar-dots w-5", "before the next attempt"],
  ["bg-fail-bar", "failed"],
  ["bar-lost-attempt", "lost"],
  ["bar-hollow", "left on another branch"],
  ["border-x border-dashed border-line-strong bg-sunken", "idle time, collapsed"],
];

/** What the bars mean. */
export function Legend() {
  return (
    <ul className="flex flex-wrap gap-x-5 gap-y-1 border-t border-line px-4 py-2.5 text-meta text-text-2">
      {ITEMS.map(([look, text]) => (
        <li key={text} className="flex items-center gap-1.5">
          <span aria-hidden className={`inline-block h-3 w-5 rounded-[2px] ${look}`} />
          {text}
        </li>
      ))}
    </ul>
  );
}
