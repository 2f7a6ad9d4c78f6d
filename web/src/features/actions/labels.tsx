import {
  Ban,
  Check,
  CirclePause,
  CornerUpLeft,
  GitBranch,
  GitFork,
  type LucideIcon,
  MessageCircleQuestionMark,
  RotateCw,
  SquareTerminal,
  Stethoscope,
  X,
} from "lucide-react";
import type { Offer } from "@/model/actions";
import { cutName } from "@/model/names";

export const ICONS: Record<Offer["kind"], LucideIcon> = {
  approve: Check,
  reject: X,
  answer: MessageCircleQuestionMark,
  resume: RotateCw,
  decide: RotateCw,
  command: SquareTerminal,
  pause: CirclePause,
  cancel: Ban,
  fork: GitFork,
  activate: GitBranch,
  jump: CornerUpLeft,
  retry: RotateCw,
  repair: Stethoscope,
};

/** What is on the button. Three dots: it asks before it acts. */
export function labelOf(offer: Offer): string {
  switch (offer.kind) {
    case "approve":
      return "Approve";
    case "reject":
      return "Reject…";
    case "answer":
      return "Answer…";
    case "resume":
      return "Resume";
    case "decide":
      return "Resume…";
    case "command":
      return "Show the command";
    case "pause":
      return "Pause…";
    case "cancel":
      return "Cancel…";
    case "fork":
      return "Fork…";
    case "activate":
      return "Go on from another branch…";
    case "retry":
      return "Do a node again…";
    case "repair":
      return `Repair ${offer.code}…`;
    case "jump":
      return offer.to ? `Go back to ${cutName(offer.to, 24)}…` : "Go back…";
  }
}

/** What the button says while the server has not answered. */
export const BUSY: Partial<Record<Offer["kind"], string>> = { resume: "Resuming…", approve: "Approving…" };
