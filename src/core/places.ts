/** Divides a limited number of places fairly: one holder alone may take all of them, but cannot keep others out. */

/** Whom a place counts against: the id of an account, or a network. */
export type Holder = number | string;

export interface Places<Holder> {
  /**
   * Takes a place for `holder`. Returns false if the holder may not have it. While places are free, any holder may take one. Beyond that, a
   * holder may take up to an equal share; beyond 1.5 times the places, up to a part of those that are left until twice the places are taken,
   * so that many holders together cannot take them all soon. Whoever has none may take one, up to three times.
   */
  take(holder: Holder): boolean;
  /** Gives back a place that `take` took. */
  give(holder: Holder): void;
  /** How many places are taken. */
  taken(): number;
}

export function createPlaces<Holder>(places: number): Places<Holder> {
  const takenBy = new Map<Holder, number>();
  let taken = 0;

  /** A part of what is left, as for the queues of a shared buffer: Choudhury and Hahne, "Dynamic queue length thresholds", 1998. */
  function shareOf(holders: number, all: number): number {
    const equal = places / holders;
    return all <= 1.5 * places ? equal : Math.min(equal, (2 * places - all) / 16);
  }

  return {
    take(holder) {
      const own = takenBy.get(holder) ?? 0;
      const all = taken + 1;
      if (all > places) {
        const isFirst = own === 0 && all <= 3 * places;
        if (!isFirst && own + 1 > shareOf(takenBy.size + (own === 0 ? 1 : 0), all)) return false;
      }
      takenBy.set(holder, own + 1);
      taken = all;
      return true;
    },
    give(holder) {
      const left = (takenBy.get(holder) ?? 0) - 1;
      if (left > 0) takenBy.set(holder, left);
      else takenBy.delete(holder);
      taken -= 1;
    },
    taken: () => taken,
  };
}

/** Who takes a place: its holder, and whether that is a stranger, without a valid API key. */
export interface Claimant {
  holder: Holder;
  stranger: boolean;
}

/** Separate places for strangers, so that they cannot keep out clients with a valid API key. Each kind is divided fairly. */
export interface SeparatePlaces {
  /** Takes a place; returns false if the claimant may not have it. */
  take(claimant: Claimant): boolean;
  /** Gives back a place that `take` took for the same claimant. */
  give(claimant: Claimant): void;
  taken(): number;
}

/** `places`: those of clients with a valid API key. All strangers together have a quarter of that number. */
export function createSeparatePlaces(places: number): SeparatePlaces {
  const withKey = createPlaces<Holder>(places);
  const ofStrangers = createPlaces<Holder>(Math.ceil(places / 4));
  const placesOf = ({ stranger }: Claimant) => (stranger ? ofStrangers : withKey);
  return {
    take: (claimant) => placesOf(claimant).take(claimant.holder),
    give: (claimant) => placesOf(claimant).give(claimant.holder),
    taken: () => withKey.taken() + ofStrangers.taken(),
  };
}
