/** Who has how much of the server. Whoever has most is refused first, so that no account and no network keeps the others out. */
import { ApiError } from '../core/errors.ts';
import { limits } from '../core/limits.ts';
import { HttpError } from './errors.ts';

/** The account of a valid API key or session; without one, the network of the address. */
export type Holder = number | string;

/** Accounts that anybody could create count as one for each network: otherwise one person could have a thousand shares. */
export const holderOfAccount = (id: number, network: string | undefined): Holder => network ?? id;

/** What a holder has now, and the time in milliseconds that was lately spent on its requests: it halves every second. */
const newShare = () => ({
  spentMs: 0,
  ...{ work: 0, bodies: 0, lookUps: 0, pipelined: 0, unreadBytes: 0, connections: 0 },
});
export type Share = ReturnType<typeof newShare>;

/** What a holder can have: requests that the store works on, bodies that arrive, and so on (`limits` has the bound of each). */
export type Resource = Exclude<keyof Share, 'spentMs'>;

const halfLifeMs = 1000;

/** A share with less of everything is as good as new: all but the time are whole numbers. */
const negligible = 0.5;

export const tooMany = new ApiError('service_unavailable');
const tooManyAndClose = new HttpError('service_unavailable', { 'retry-after': '1', connection: 'close' });

/** Beyond their bounds the connection closes: a body would still arrive, and a client that reads nothing may have pipelined a thousand requests more. */
const closing: ReadonlySet<Resource> = new Set(['bodies', 'unreadBytes']);

/** Smaller bodies fit into the kernel's send buffer, or nearly so. */
const largeBytes = 64 * 1024;

export type Shares = ReturnType<typeof createShares>;

/** `onRefused` is called before `claim` throws. */
export function createShares(onRefused: () => void) {
  const shares = new Map<Holder, Share>();
  const taken = newShare();
  const unread = new Map<Buffer, { holder: Holder; responses: number }>();

  /** The share of a holder. Do not keep it for longer than a turn: it is forgotten when it is empty. */
  function of(holder: Holder): Share {
    let share = shares.get(holder);
    if (!share) {
      share = newShare();
      shares.set(holder, share);
    }
    return share;
  }

  /** Takes `amount` of a resource, unless the holder would then have more than is free: alone it gets half of it, two get a third each. */
  function take(holder: Holder, resource: Resource, amount = 1): boolean {
    const free = limits[resource] - taken[resource];
    if (of(holder)[resource] + amount > free) return false;
    add(holder, resource, amount);
    return true;
  }

  /** Takes a place without a bound, for connections. */
  function add(holder: Holder, resource: Resource, amount = 1): void {
    of(holder)[resource] += amount;
    taken[resource] += amount;
  }

  /** Gives back what was taken. */
  function give(holder: Holder, resource: Resource, amount = 1): void {
    add(holder, resource, -amount);
  }

  /** Takes as `take` does. Throws ApiError `service_unavailable` if the holder may not have it. */
  function claim(holder: Holder, resource: Resource, amount?: number): void {
    if (take(holder, resource, amount)) return;
    onRefused();
    throw closing.has(resource) ? tooManyAndClose : tooMany;
  }

  const timer = setInterval(() => {
    for (const [holder, share] of shares) {
      share.spentMs /= 2;
      if (Object.values(share).every((amount) => amount < negligible)) shares.delete(holder);
    }
  }, halfLifeMs).unref();

  return {
    of,
    take,
    claim,
    add,
    give,
    /** Runs `act` while the holder has `amount` more of a resource, by default one. Rejects with ApiError `service_unavailable` if it may not. */
    async during<Result>(
      holder: Holder,
      resource: Resource,
      act: () => Result | Promise<Result>,
      amount?: number,
    ): Promise<Result> {
      claim(holder, resource, amount);
      try {
        return await act();
      } finally {
        give(holder, resource, amount);
      }
    },
    /**
     * Counts a response body that its client has not read yet. Returns false if it is small. All responses that send the same buffer share it, and it
     * counts against the first holder. Throws ApiError `service_unavailable` if the holder may not have more unread bytes.
     */
    takeUnread(holder: Holder, body: Buffer): boolean {
      if (body.length < largeBytes) return false;
      const known = unread.get(body);
      if (known) known.responses += 1;
      else {
        claim(holder, 'unreadBytes', body.length);
        unread.set(body, { holder, responses: 1 });
      }
      return true;
    },
    giveUnread(body: Buffer): void {
      const known = unread.get(body);
      if (!known) return;
      known.responses -= 1;
      if (known.responses > 0) return;
      unread.delete(body);
      give(known.holder, 'unreadBytes', body.length);
    },
    /** The holder that has most of a resource. */
    most(resource: Resource): Holder | undefined {
      let most: Holder | undefined;
      let amount = 0;
      for (const [holder, share] of shares) {
        if (share[resource] <= amount) continue;
        most = holder;
        amount = share[resource];
      }
      return most;
    },
    /** What all holders have. */
    taken: (): Readonly<Record<Resource, number>> => taken,
    close: () => clearInterval(timer),
  };
}
