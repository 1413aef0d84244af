"""Korean search: a word is found whatever particle it carries.

The index side analyses each sentence with Kiwi, a morphological analyser, and files nouns and foreign
words without their particles (`배/n`) and every word as it stands (`배가/w`). The browser has no analyser,
but it has the index: it takes a query's longest beginning that is a noun of the index and accepts the
rest if that is a particle or made of nouns too. So 배가 leads to 배, while 평가 stays whole.

The marks behind the words also keep Sphinx from treating short words as optional.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from pathlib import Path

from kiwipiepy import Kiwi
from sphinx.search import SearchLanguage

# Particles and the endings of 이다, 하다, 되다 that may follow a noun; chains such as 에서는 are built from them.
PARTICLES = """이 가 을 를 은 는 의 에 에서 에게 에게서 께 께서 로 으로 와 과 랑 이랑 하고 도 만 까지 부터 조차 마저
밖에 보다 처럼 같이 만큼 마다 나 이나 라도 이라도 든지 이든지 란 이란 라는 이라는 라고 이라고 이며 며 이고 고
들 뿐 대로 씩 야 이야 여 다 이다 인 일 이면 면 입니다 이었다 였다 입니까 이지만 지만 이므로 므로
하다 한다 하는 한 할 하여 해 해서 했다 하고 하면 하며 합니다 했습니다 하지 되다 된다 되는 된 될 되어 돼 됐다
됩니다 되었습니다 되면 되고 시키다 시킨다 시키는 시킨 시킬""".split()

# Nouns of two syllables that end like a particle: never read as a noun of one syllable and its particle.
WHOLE = """평가 국가 대가 증가 추가 휴가 작가 화가 물가 단가 회의 정의 논의 강의 주의 동의 합의 유의 의의 거의 결의
건의 문의 차이 길이 깊이 높이 넓이 사이 아이 나이 놀이 종이 먹이 풀이 이이 같이 많이 없이 속도 정도 온도 용도
태도 각도 밀도 빈도 강도 지도 제도 시도 수도 농도 의도 경도 위도 효과 결과 사과 통과 초과 학과 경과 성과 과로
경로 회로 도로 통로 서로 새로 바로 따로 홀로 스스로 포로 기로 진로 평화 문화 변화 나라 하나 만나 만은 지은
가은 마을 가을 노을 고을 겨를 나를 너를 모를 대로 그대로 제대로 조만 불만 자만 거만 수만 억만""".split()

NOUNS = {"NNG", "NNP", "NNB", "NR", "NP", "XR", "SL", "SH", "SN"}
VERBS = {"VV", "VA", "VX", "VCN"}
WORD = re.compile(r"[가-힣ㄱ-ㅎㅏ-ㅣ]+|[A-Za-zÀ-ÿ0-9_]+")


@lru_cache(1)
def analyser() -> Kiwi:
    """Kiwi with the book's own terms, which its dictionary lacks."""
    kiwi = Kiwi(num_workers=1)
    for line in (Path(__file__).parent / "search_terms_ko.txt").read_text(encoding="utf-8").splitlines():
        kiwi.add_user_word(line.strip(), "NNG", 0.0)
    return kiwi


def index_terms(text: str) -> list[str]:
    """All terms under which a text is found."""
    terms = [f"{word.lower()}/w" for word in WORD.findall(text)]
    run: list[str] = []  # nouns written together, such as 가중 + 치
    end = None
    for token in analyser().tokenize(text):
        tag = token.tag.split("-")[0]
        if tag in VERBS:
            terms.append(f"{token.form}다/w")
        if tag in NOUNS or tag == "XSN" or tag == "XPN":
            terms.extend(f"{part}/n" for part in WORD.findall(token.form.lower()))
            run = [*run, token.form] if token.start == end else [token.form]
            if len(run) > 1 and min(map(len, run)) == 1:  # longer parts the browser finds by itself
                terms.append("".join(run).lower() + "/n")
            end = token.start + token.len
        else:
            run, end = [], None
    return terms


class SearchKorean(SearchLanguage):
    lang = "ko"
    language_name = "Korean"
    stopwords: set[str] = set()
    js_stemmer_code = (
        (Path(__file__).parent / "search_ko.js")
        .read_text(encoding="utf-8")
        .replace("/*PARTICLES*/[]", json.dumps(PARTICLES, ensure_ascii=False))
        .replace("/*WHOLE*/[]", json.dumps(WHOLE, ensure_ascii=False))
    )

    def split(self, input: str) -> list[str]:
        return index_terms(input)

    def word_filter(self, word: str) -> bool:
        return True


def setup(app):
    app.add_search_language(SearchKorean)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
