import { Bookmark, Trash2 } from "lucide-react";
import { useState } from "react";
import { count } from "@/model/durations";
import { Button } from "@/ui/Button";
import { Dialog } from "@/ui/Dialog";
import { Field, INPUT } from "@/ui/Field";
import { Segments } from "@/ui/Tabs";
import { useCounts } from "./data";
import { useViews, VIEWS } from "./views";

/** The views with their counts, those of everybody first. */
export function ViewsBar({ query, onChoose }: { query: string; onChoose: (query: string) => void }) {
  const own = useViews((kept) => kept.views);
  const views = [...new Map([...own, ...VIEWS].map((view) => [view.query, view])).values()].sort(
    (a, b) => Number(VIEWS.includes(b)) - Number(VIEWS.includes(a)),
  );
  const counts = useCounts(views);
  return (
    <Segments
      label="Views"
      value={views.some((view) => view.query === query) ? query : null}
      onChange={onChoose}
      choices={views.map((view, index) => {
        const found = counts[index];
        return {
          value: view.query,
          text: (
            <>
              {view.name}{" "}
              {found ? (
                <span>
                  {count(found.count)}
                  {found.more ? "+" : ""}
                </span>
              ) : null}
            </>
          ),
        };
      })}
    />
  );
}

/** Keep the current filter under a name, or remove one that was kept. */
export function SaveView({ query }: { query: string }) {
  const [isOpen, setOpen] = useState(false);
  const [name, setName] = useState("");
  const { views, save, remove } = useViews();
  const taken = VIEWS.some((view) => view.name.toLowerCase() === name.trim().toLowerCase());
  const keep = () => {
    if (!name.trim() || taken) return;
    save({ name: name.trim(), query });
    setName("");
    setOpen(false);
  };
  return (
    <>
      <Button
        look="soft"
        aria-label="Save view"
        className="max-md:w-(--control) max-md:px-0"
        onClick={() => setOpen(true)}
      >
        <Bookmark size={14} aria-hidden /> <span className="max-md:hidden">Save view</span>
      </Button>
      <Dialog
        open={isOpen}
        onClose={() => setOpen(false)}
        title="Save this view"
        actions={
          <>
            <Button look="flat" onClick={() => setOpen(false)}>
              Do not save
            </Button>
            <Button look="primary" onClick={keep} disabled={!name.trim() || taken}>
              <Bookmark size={14} aria-hidden /> Save view
            </Button>
          </>
        }
      >
        <form
          onSubmit={(event) => {
            event.preventDefault();
            keep();
          }}
        >
          <Field
            label="Name"
            note="kept in this browser"
            error={taken ? "Everybody has a view of this name. Choose another one." : undefined}
            help="The address of this page is the same view: it can be sent to others."
          >
            {(attributes) => (
              <input
                {...attributes}
                value={name}
                maxLength={40}
                onChange={(event) => setName(event.target.value)}
                className={INPUT}
              />
            )}
          </Field>
        </form>
        {views.length ? (
          <ul className="mt-4 border-t border-line pt-2">
            {views.map((view) => (
              <li key={view.name} className="flex items-center gap-2">
                <span className="min-w-0 flex-1 truncate">{view.name}</span>
                <Button look="flat" small onClick={() => remove(view.name)} aria-label={`Remove the view ${view.name}`}>
                  <Trash2 size={14} aria-hidden /> Remove
                </Button>
              </li>
            ))}
          </ul>
        ) : null}
      </Dialog>
    </>
  );
}
