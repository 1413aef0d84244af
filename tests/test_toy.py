from collections import Counter

from tutorial_lib.toy import toy_pairs, toy_reviews, with_particle


def test_particles_fit_the_last_syllable():
    assert [with_particle(noun, "을", "를") for noun in ("책", "사과", "그림")] == [
        "책을",
        "사과를",
        "그림을",
    ]


def test_pairs_are_all_different_and_translate_word_for_word_in_another_order():
    pairs = toy_pairs()
    assert len(set(pairs)) == len({p.source for p in pairs}) == len({p.target for p in pairs}) == 3200
    assert ("어제 민수가 책을 샀다.", "Minsu bought a book yesterday.") in pairs
    assert ("의사가 우산을 잃어버렸다.", "The doctor lost an umbrella.") in pairs
    assert ("오늘 아침에 학생이 꽃을 보았다.", "The student saw a flower this morning.") in pairs


def test_the_same_words_occur_with_both_labels():
    reviews = toy_reviews()
    assert len(set(reviews)) == 1152
    assert ("영화는 좋았지만 음악은 지루했다.", 1) in reviews and (
        "음악은 좋았지만 영화는 지루했다.",
        0,
    ) in reviews
    assert Counter(r.label for r in reviews) == {0: 576, 1: 576}
    words = {
        label: Counter(w for r in reviews if r.label == label for w in r.text.split()) for label in (0, 1)
    }
    assert words[0] == words[1]
