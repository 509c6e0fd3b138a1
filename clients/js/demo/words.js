// A text as a language model would write it.

const WORDS_PER_S = 40;

/** The words of a text with the spaces behind them, at the pace of a language model. */
export async function* wordByWord(text, wordsPerS = WORDS_PER_S) {
  for (const [i, word] of (text.match(/\s*\S+\s*/g) ?? []).entries()) {
    if (i > 0) await new Promise((resolve) => setTimeout(resolve, 1000 / wordsPerS));
    yield word;
  }
}
