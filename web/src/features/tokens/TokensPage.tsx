import { PageHeading } from "@/ui/PageHeading";

export default function TokensPage() {
  return <PageHeading title="Tokens" />;
}
