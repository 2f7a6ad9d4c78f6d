import { Ellipsis } from "lucide-react";
import { useNavigate } from "react-router";
import type { View } from "@/api/client";
import { useMe } from "@/api/queries";
import { type Offer, offersOf } from "@/model/actions";
import { Button } from "@/ui/Button";
import { useKeys } from "@/ui/keys";
import { Menu, MenuItem } from "@/ui/Menu";
import { BUSY, ICONS, labelOf } from "./labels";
import { type Asked, useActions, useBusy } from "./store";

type Detail = View<"RunDetailView">;

/** The actions on a run: the safe one first, the others beside it and in a menu. A role that may do nothing sees nothing. */
export function ActionRow({ detail }: { detail: Detail }) {
  const me = useMe().data;
  const { first, row, menu } = offersOf(detail, me?.permissions ?? []);
  const start = useStart(detail);
  const all = [...(first ? [first] : []), ...row, ...menu];
  const find = (kind: Offer["kind"]) => all.find((offer) => offer.kind === kind);
  const press = (kind: Offer["kind"]) => {
    const offer = find(kind);
    if (offer) start(offer);
  };
  useKeys({
    "Shift+r": () => (find("decide") ? press("decide") : press("resume")),
    "Shift+p": () => press("pause"),
    "Shift+b": () => press("jump"),
    ".": () => document.getElementById("all-actions")?.click(),
  });
  if (!all.length) return null;
  return (
    <div className="mt-2 flex flex-wrap gap-2 max-md:*:flex-1">
      {first ? <ActionButton offer={first} detail={detail} start={start} isFirst /> : null}
      {row.map((offer) => (
        <ActionButton key={offer.kind} offer={offer} detail={detail} start={start} />
      ))}
      {menu.length ? (
        <Menu
          align="end"
          trigger={
            <Button id="all-actions" square aria-label="All actions" className="max-md:max-w-11">
              <Ellipsis size={16} aria-hidden />
            </Button>
          }
        >
          {menu.map((offer) => {
            const Icon = ICONS[offer.kind];
            return (
              <MenuItem
                key={offer.kind}
                onSelect={() => start(offer)}
                danger={offer.kind === "cancel" || offer.kind === "delete"}
              >
                <Icon size={16} aria-hidden /> {labelOf(offer)}
              </MenuItem>
            );
          })}
        </Menu>
      ) : null}
    </div>
  );
}

function ActionButton({
  offer,
  detail,
  start,
  isFirst,
}: {
  offer: Offer;
  detail: Detail;
  start: (offer: Offer) => void;
  isFirst?: boolean;
}) {
  const Icon = ICONS[offer.kind];
  const busy = useBusy(offer.kind === "approve" ? "answer" : offer.kind, detail.run);
  return (
    <Button
      look={isFirst ? "primary" : "plain"}
      busy={busy}
      busyText={BUSY[offer.kind] ?? labelOf(offer)}
      onClick={() => start(offer)}
    >
      <Icon size={16} aria-hidden /> {labelOf(offer)}
    </Button>
  );
}

/** Begin an action: at once where nothing has to be asked, otherwise by its dialog. */
function useStart(detail: Detail): (offer: Offer) => void {
  const navigate = useNavigate();
  const { ask, startWorkflow, resumeWorkflow, decideWorkflow } = useActions.getState();
  const { run } = detail;
  return (offer) => {
    const question = detail.questions[0];
    switch (offer.kind) {
      case "start":
        void startWorkflow(run);
        break;
      case "resume": {
        const events = detail.actions.find((action) => action.action === "resume")?.appends;
        void resumeWorkflow(run, { events: events ?? [] });
        break;
      }
      case "approve":
        if (question) void decideWorkflow(run, true, question.id);
        break;
      case "answer":
        navigate(`/inbox?${new URLSearchParams({ run, question: question?.id ?? "" })}`);
        break;
      default: {
        const place = offer.kind === "jump" && offer.to ? { to: offer.to } : {};
        ask({ kind: offer.kind, run, ...place } as Asked);
      }
    }
  };
}
