"""Small sets of made-up sentences on which training takes less than a minute (chapters 10 and 11)."""

from __future__ import annotations

import itertools
import unicodedata

from tutorial_lib.corpora import Labelled, Pair

SUBJECTS = {
    "민수": "Minsu", "지은": "Jieun", "하늘": "Haneul", "유진": "Yujin", "학생": "the student",
    "의사": "the doctor", "선생님": "the teacher", "동생": "my brother", "친구": "my friend", "할머니": "grandmother",
}  # fmt: skip
OBJECTS = {
    "책": "a book", "사과": "an apple", "우산": "an umbrella", "그림": "a picture", "시계": "a watch",
    "가방": "a bag", "공": "a ball", "모자": "a hat", "연필": "a pencil", "꽃": "a flower",
}  # fmt: skip
VERBS = {
    "샀다": "bought", "보았다": "saw", "찾았다": "found", "그렸다": "drew",
    "잃어버렸다": "lost", "팔았다": "sold", "빌렸다": "borrowed", "숨겼다": "hid",
}  # fmt: skip
TIMES = {"": "", "어제": "yesterday", "오늘 아침에": "this morning", "지난주에": "last week"}

OTHERS = ("음악", "배우", "결말", "대사", "화면", "줄거리", "의상", "음향")
GOOD = ("좋았", "훌륭했", "멋졌", "뛰어났", "인상적이었", "마음에 들었")
BAD = ("나빴", "형편없었", "지루했", "어색했", "실망스러웠", "마음에 안 들었")


def with_particle(noun: str, after_consonant: str, after_vowel: str) -> str:
    """Put the particle that fits the noun's last syllable: 책을, but 사과를."""
    last = unicodedata.normalize("NFD", noun)[-1]
    return noun + (after_consonant if "\u11a8" <= last <= "\u11ff" else after_vowel)


def toy_pairs() -> list[Pair]:
    """Return 3,200 Korean sentences and their translations; the order of words differs between the two.

    어제 민수가 책을 샀다. -> Minsu bought a book yesterday.
    """
    pairs = []
    for (ko_time, time), (ko_who, who), (ko_what, what), (ko_did, did) in itertools.product(
        TIMES.items(), SUBJECTS.items(), OBJECTS.items(), VERBS.items()
    ):
        korean = [ko_time, with_particle(ko_who, "이", "가"), with_particle(ko_what, "을", "를"), ko_did]
        english = [who[0].upper() + who[1:], did, what, time]
        pairs.append(Pair(" ".join(filter(None, korean)) + ".", " ".join(filter(None, english)) + "."))
    return pairs


def toy_reviews() -> list[Labelled]:
    """Return 1,152 reviews that say one good and one bad thing; label 1 if the film is the good one.

    영화는 좋았지만 음악은 지루했다. -> 1, 음악은 좋았지만 영화는 지루했다. -> 0. The same
    words occur with both labels, so counting words cannot tell them apart.
    """
    reviews = []
    for other, good, bad, film_first, good_first in itertools.product(
        OTHERS, GOOD, BAD, (True, False), (True, False)
    ):
        topics = ("영화", other) if film_first else (other, "영화")
        opinions = (good, bad) if good_first else (bad, good)
        first, second = (with_particle(topic, "은", "는") for topic in topics)
        text = f"{first} {opinions[0]}지만 {second} {opinions[1]}다."
        reviews.append(Labelled(text, int(film_first == good_first)))
    return reviews
