import { Dialog } from "@/ui/Dialog";

const KEYS: { title: string; keys: [string, string][] }[] = [
  {
    title: "Everywhere",
    keys: [
      ["/", "find a run"],
      ["g r", "runs"],
      ["g i", "inbox"],
      ["g w", "workflows"],
      ["g k", "workers"],
      ["Ctrl+Enter", "send a form"],
      ["Esc", "close, or clear the selection"],
      ["?", "this list"],
    ],
  },
  {
    title: "Tables",
    keys: [
      ["j k", "next and previous row; arrows too"],
      ["x", "select the row"],
      ["Shift+j k", "extend the selection"],
      ["Enter", "open the row"],
      ["n", "show new rows"],
    ],
  },
  {
    title: "A run",
    keys: [
      ["1 – 7", "its tabs"],
      ["R", "resume"],
      ["P", "pause"],
      ["B", "go back"],
      [".", "all actions"],
      ["[ ]", "previous and next event in time"],
      ["+ − 0", "zoom, and fit, in timeline and graph"],
    ],
  },
];

export function KeyList({ open, onClose }: { open: boolean; onClose: () => void }) {
  return (
    <Dialog open={open} onClose={onClose} title="Keys" wide>
      <div className="grid grid-cols-3 gap-6 max-md:grid-cols-1">
        {KEYS.map((group) => (
          <section key={group.title}>
            <h3 className="mb-2 font-semibold">{group.title}</h3>
            <dl className="flex flex-col gap-1.5">
              {group.keys.map(([key, what]) => (
                <div key={key} className="flex gap-3">
                  <dt className="w-20 flex-none">
                    <kbd className="rounded-control border border-line bg-canvas px-1.5">{key}</kbd>
                  </dt>
                  <dd className="text-text-2">{what}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
      <p className="mt-4 text-meta text-text-2">Single keys can be switched off in the settings.</p>
    </Dialog>
  );
}
