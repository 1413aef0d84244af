"""What pages, notebooks and reports say around the exercises, in both languages."""

from __future__ import annotations

WORDS = {
    "en": {
        "concept": "concept",
        "implement": "implement",
        "find the bug": "find the bug",
        "extend": "extend",
        "discuss": "discuss",
        "difficulty": "difficulty {n} of 3",
        "minutes": "{n} min",
        "points": "{n} points",
        "point": "1 point",
        "hint": "Hint",
        "hint_n": "Hint {n}",
        "solution": "Solution",
        "start": "Start from this cell:",
        "test": "Tests that check your answer",
        "answer_here": "*Write your answer here, in place of this line.*",
        "notebook": "Solve them in the notebook, where each answer is checked: [open in Colab]({colab}) or <a href='{download}' download>download</a>.",
        "how": "Run the first cell. Then replace each line `raise check.unanswered` with your code, or fill in the empty answers, and run the test cell below: it says that the tests pass, or what is wrong. Where an exercise asks for code, more tests of the same kind run when your notebook is graded. Keep the cells in their order; you may add your own.",
        "due": "Due {deadline}. {points} in all.",
        "setup": "# In Colab this installs the book's library; elsewhere it does nothing.",
    },
    "ko": {
        "concept": "개념",
        "implement": "구현",
        "find the bug": "버그 찾기",
        "extend": "확장",
        "discuss": "서술",
        "difficulty": "난이도 {n}/3",
        "minutes": "{n}분",
        "points": "{n}점",
        "point": "1점",
        "hint": "힌트",
        "hint_n": "힌트 {n}",
        "solution": "풀이",
        "start": "이 셀에서 시작하세요.",
        "test": "답을 확인하는 테스트",
        "answer_here": "*이 줄을 지우고 여기에 답을 쓰세요.*",
        "notebook": "노트북에서 풀면 답을 바로 확인할 수 있습니다. [Colab에서 열기]({colab}) · <a href='{download}' download>내려받기</a>",
        "how": "먼저 첫 셀을 실행하세요. 그다음 `raise check.unanswered`가 있는 줄을 코드로 바꾸거나 비어 있는 답을 채우고, 바로 아래 테스트 셀을 실행하세요. 테스트를 통과했는지, 아니면 무엇이 틀렸는지 알려 줍니다. 코드를 쓰는 문제는 채점할 때 같은 종류의 테스트를 더 실행합니다. 있던 셀은 지우거나 옮기지 마세요. 새 셀은 더 넣어도 됩니다.",
        "due": "마감은 {deadline}이고, 모두 {points}입니다.",
        "setup": "# Colab에서는 이 책의 라이브러리를 설치하고, 다른 곳에서는 아무 일도 하지 않습니다.",
    },
}


def number(value: float) -> str:
    """2 rather than 2.0, 2.5 as it is."""
    return f"{value:g}"


def points(value: float, language: str) -> str:
    """'1 point', '2.5 points' in the language."""
    words = WORDS[language]
    return words["point"] if value == 1 else words["points"].format(n=number(value))


def facts(exercise, language: str, worth: float | None = None) -> str:
    """The line under an exercise's title: kind, difficulty, minutes, points."""
    words = WORDS[language]
    return " · ".join(
        [
            words[exercise.kind],
            words["difficulty"].format(n=exercise.difficulty),
            words["minutes"].format(n=exercise.minutes),
            points(exercise.points if worth is None else worth, language),
        ]
    )
