// The tools of the example: one lists a shop's orders, one refunds many of them at once.

export const definitions = [
  { name: "list_orders", description: "List all orders of the shop.", input_schema: { type: "object" as const } },
  {
    name: "refund",
    description: "Refund orders by their ids.",
    input_schema: {
      type: "object" as const,
      properties: { ids: { type: "array", items: { type: "integer" } } },
      required: ["ids"],
    },
  },
];

/** 4,000 orders: far more than a model should read. */
function listOrders() {
  const regions = ["north", "east", "south", "west"];
  const orders = Array.from({ length: 4_000 }, (_, at) => at + 1).map((id) => ({
    id, region: regions[id % 4], amount: (id * 7919) % 500 + 0.5, is_late: id % 97 === 0,
  }));
  return { count: orders.length, orders };
}

const refund = (ids: number[]) => `${ids.length} orders refunded, the last one is ${ids.at(-1)}`;

export function run(name: string, args: Record<string, unknown>): unknown {
  return name === "refund" ? refund(args.ids as number[]) : listOrders();
}
