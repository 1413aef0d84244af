/* The query's side of search_ko.py: words of a query become terms of the index. */
const KOREAN_PARTICLES = new Set(/*PARTICLES*/[]);
const KOREAN_WHOLE = new Set(/*WHOLE*/[]);
const HANGUL = /[가-힣]/;

const inIndex = (term) => {
  const own = (object) => Object.prototype.hasOwnProperty.call(object, term);
  return own(Search._index.terms) || own(Search._index.titleterms);
};

/* 에서는 = 에서 + 는 */
const isParticle = (rest) => {
  if (KOREAN_PARTICLES.has(rest)) return true;
  for (let i = 1; i < rest.length; i++)
    if (KOREAN_PARTICLES.has(rest.slice(0, i)) && isParticle(rest.slice(i))) return true;
  return false;
};

/* The nouns of the index that a word is made of, without its particle; null if it is not made of them. */
const nounsOf = (word, minimum = 1) => {
  if (inIndex(word + "/n")) return [word];
  for (let i = word.length - 1; i >= minimum; i--) {
    const head = word.slice(0, i), rest = word.slice(i);
    if (!inIndex(head + "/n")) continue;
    if (isParticle(rest) && !(i === 1 && KOREAN_WHOLE.has(word))) return [head];
    if (i > 1 && rest.length > 1) {
      const more = nounsOf(rest, 2);
      if (more) return [head, ...more];
    }
  }
  return null;
};

const termsOf = (word) => {
  const nouns = HANGUL.test(word) ? nounsOf(word) : inIndex(word + "/n") ? [word] : null;
  if (nouns) return nouns.map((noun) => noun + "/n");
  if (inIndex(word + "/w")) return [word + "/w"];
  return null;
};

var splitQuery = (query) => {
  const words = [];
  for (const chunk of query.toLowerCase().split(/\s+/)) {
    const runs = chunk.match(/[가-힣ㄱ-ㅎㅏ-ㅣ]+|[a-zà-ÿ0-9_]+/g) || [];
    runs.forEach((run, i) => {
      /* softmax를: a particle behind a Latin word carries no meaning of its own */
      if (i > 0 && HANGUL.test(run) && isParticle(run)) return;
      words.push(run);
    });
  }
  const terms = [];
  for (let i = 0; i < words.length; i++) {
    let found = termsOf(words[i]);
    /* 동음 이의어 for 동음이의어 */
    if (!found && i + 1 < words.length) {
      found = termsOf(words[i] + words[i + 1]);
      if (found) i++;
    }
    terms.push(...(found || [words[i] + "/not-in-index"]));
  }
  return terms;
};

var Stemmer = function () {
  this.stemWord = (word) => word;
};

/* The marks belong to the index: the extract below a result looks for the bare word. */
if (typeof Search !== "undefined" && Search.makeSearchSummary) {
  const summarise = Search.makeSearchSummary;
  Search.makeSearchSummary = (text, terms, anchor) =>
    summarise(text, [...terms].map((term) => term.replace(/\/[nw]$/, "")), anchor);
}
