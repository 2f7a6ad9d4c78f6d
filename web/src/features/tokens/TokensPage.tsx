import { useQuery } from "@tanstack/react-query";
import { Check, Copy, KeyRound, Plus } from "lucide-react";
import { type FormEvent, useState } from "react";
import { answer, api, type View } from "@/api/client";
import { now } from "@/api/clock";
import { queries, useMay, useMe } from "@/api/queries";
import { Button } from "@/ui/Button";
import { copy } from "@/ui/CopyId";
import { Dialog } from "@/ui/Dialog";
import { EmptyState } from "@/ui/EmptyState";
import { Field, INPUT } from "@/ui/Field";
import { LoadError } from "@/ui/LoadError";
import { Moment, msOf, ZoneNote } from "@/ui/Moment";
import { useOnce } from "@/ui/once";
import { PageHeading } from "@/ui/PageHeading";
import { Skeleton } from "@/ui/Skeleton";
import { CELL, Table } from "@/ui/Table";
import { Segments } from "@/ui/Tabs";
import { toast, toastProblem } from "@/ui/Toast";

const KEY = ["tokens"];
type Role = View<"TokenView">["role"];

/** Tokens for programs and people: create, see when each was used, revoke. */
export default function TokensPage() {
  const may = useMay("tokens:manage");
  const role = useMe().data?.role;
  const [isCreating, setCreating] = useState(false);
  const found = useQuery({
    queryKey: KEY,
    queryFn: ({ signal }) => answer(api.GET("/api/v1/tokens", { signal })),
    enabled: may,
  });
  if (role && !may) return <NotAllowed role={role} />;
  return (
    <>
      <PageHeading
        title="Tokens"
        end={
          <Button look="primary" onClick={() => setCreating(true)}>
            <Plus size={16} aria-hidden /> Create a token
          </Button>
        }
      />
      <section className="mt-3 overflow-hidden rounded-panel border border-line bg-surface">
        {!found.data ? (
          found.error ? (
            <LoadError what="The tokens" error={found.error} retry={() => void found.refetch()} />
          ) : (
            <Skeleton />
          )
        ) : found.data.tokens.length ? (
          <Table label="Tokens" columns={["Name", "Role", "Created", "Last used", "Expires", "Revoke"]}>
            {found.data.tokens.map((token) => (
              <Row key={token.id} token={token} />
            ))}
          </Table>
        ) : (
          <EmptyState icon={KeyRound} title="There are no tokens.">
            Programs and the command line need one to use this server.
          </EmptyState>
        )}
      </section>
      <p className="mt-3 text-meta text-text-3">
        <ZoneNote /> A token that is revoked ends within seconds on every server.
      </p>
      {isCreating ? <Create onClose={() => setCreating(false)} /> : null}
    </>
  );
}

function NotAllowed({ role }: { role: string }) {
  return (
    <>
      <PageHeading title="Tokens" />
      <p className="mt-3">Your role, {role}, cannot do this. Ask an admin.</p>
    </>
  );
}

function Row({ token }: { token: View<"TokenView"> }) {
  const [isAsking, setAsking] = useState(false);
  const [revoke, isBusy] = useOnce(async () => {
    try {
      await answer(api.DELETE("/api/v1/tokens/{id}", { params: { path: { id: token.id } } }));
      toast({ title: `${token.name} is revoked` });
      setAsking(false);
    } catch (error) {
      toastProblem("Not revoked", error);
    }
    await queries.invalidateQueries({ queryKey: KEY });
  });
  const isOver = token.expires !== null && msOf(token.expires) <= now();
  return (
    <tr>
      <td className={CELL}>
        <b>{token.name}</b>
        <br />
        <span className="text-meta text-text-2">
          <code>{token.id}</code>
          {token.by ? `, by ${token.by}` : ""}
        </span>
      </td>
      <td className={CELL} data-label="Role">
        {token.role}
      </td>
      <td className={CELL} data-label="Created">
        <Moment time={token.created} />
      </td>
      <td className={CELL} data-label="Last used">
        {token.used ? <Moment time={token.used} /> : <span className="text-text-2">Never</span>}
      </td>
      <td className={CELL} data-label="Expires">
        {token.expires === null ? (
          <span className="text-text-2">Never</span>
        ) : (
          <>
            {isOver ? "Expired " : ""}
            <Moment time={token.expires} />
          </>
        )}
      </td>
      <td className={`${CELL} text-right max-md:text-left`}>
        <Button small onClick={() => setAsking(true)}>
          Revoke…
        </Button>
        <Dialog
          open={isAsking}
          onClose={() => setAsking(false)}
          title={`Revoke ${token.name}?`}
          actions={
            <>
              <Button look="flat" autoFocus onClick={() => setAsking(false)}>
                Keep it
              </Button>
              <Button look="danger" busy={isBusy} busyText="Revoking…" onClick={() => revoke()}>
                Revoke the token
              </Button>
            </>
          }
        >
          What uses it is refused from then on, and its open streams end. It cannot be undone.
        </Dialog>
      </td>
    </tr>
  );
}

const DAYS = [
  { value: "7", text: "7 days" },
  { value: "30", text: "30 days" },
  { value: "365", text: "A year" },
  { value: "never", text: "Never" },
] as const;
const NAME = /^[A-Za-z0-9][A-Za-z0-9 ._@-]{0,99}$/;

function Create({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>("viewer");
  const [days, setDays] = useState<(typeof DAYS)[number]["value"]>("30");
  const [hasLeft, setLeft] = useState(false);
  const [made, setMade] = useState<View<"NewTokenView"> | null>(null);
  const error = hasLeft && !NAME.test(name) ? "Use 1 to 100 letters, digits, blanks and . _ @ -" : undefined;
  const [create, isBusy] = useOnce(async () => {
    setLeft(true);
    if (!NAME.test(name)) return;
    try {
      const body = { name, role, ...(days === "never" ? {} : { expires_in: Number(days) * 86_400 }) };
      setMade(await answer(api.POST("/api/v1/tokens", { body })));
      await queries.invalidateQueries({ queryKey: KEY });
    } catch (error) {
      toastProblem("No token was created", error);
    }
  });
  if (made) return <Secret made={made} onClose={onClose} />;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    create();
  };
  return (
    <Dialog
      open
      onClose={onClose}
      title="Create a token"
      actions={
        <>
          <Button look="flat" onClick={onClose}>
            Cancel
          </Button>
          <Button look="primary" type="submit" form="create-token" busy={isBusy} busyText="Creating…">
            Create the token
          </Button>
        </>
      }
    >
      <form id="create-token" onSubmit={submit} className="flex flex-col gap-4">
        <Field label="Name" note="what it is for" error={error}>
          {(attributes) => (
            <input
              {...attributes}
              value={name}
              onChange={(event) => setName(event.target.value)}
              onBlur={() => setLeft(name !== "")}
              autoComplete="off"
              className={INPUT}
            />
          )}
        </Field>
        <div className="flex flex-col items-start gap-1">
          <span>Role</span>
          <Segments
            label="Role"
            value={role}
            onChange={setRole}
            choices={[
              { value: "viewer", text: "Viewer" },
              { value: "operator", text: "Operator" },
              { value: "admin", text: "Admin" },
            ]}
          />
          <p className="text-meta text-text-2">{MEANING[role]}</p>
        </div>
        <div className="flex flex-col items-start gap-1">
          <span>Expires after</span>
          <Segments label="Expires after" value={days} onChange={setDays} choices={[...DAYS]} />
        </div>
      </form>
    </Dialog>
  );
}

const MEANING: Record<Role, string> = {
  viewer: "Reads runs, workflows, workers and metrics.",
  operator: "Reads, and does everything with runs except deleting them: start, answer, pause, cancel, go back, repair.",
  admin: "Everything, also deleting runs, tokens, the sweeper and the audit.",
};

/** The secret, shown this once. */
function Secret({ made, onClose }: { made: View<"NewTokenView">; onClose: () => void }) {
  const [isCopied, setCopied] = useState(false);
  return (
    <Dialog
      open
      onClose={onClose}
      title={`The token ${made.token.name}`}
      actions={
        <Button look={isCopied ? "primary" : "plain"} onClick={onClose}>
          Close
        </Button>
      }
    >
      <p>It is shown this once, and not stored. Copy it now.</p>
      <pre tabIndex={0} className="mt-3 rounded-control bg-code px-3 py-2 break-all whitespace-pre-wrap">
        {made.secret}
      </pre>
      <Button
        className="mt-3"
        look={isCopied ? "plain" : "primary"}
        autoFocus
        onClick={async () => setCopied(await copy(made.secret))}
      >
        {isCopied ? <Check size={16} aria-hidden /> : <Copy size={16} aria-hidden />}
        {isCopied ? "Copied" : "Copy the token"}
      </Button>
    </Dialog>
  );
}
